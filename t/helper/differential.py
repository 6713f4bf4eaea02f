#!/usr/bin/env python3
"""differential.py -- compares the programs with the formulas of the method, in double precision.

The formulas are those of the paper and of the published code.  Each command compares figures that the
programs wrote with figures that it computes, prints the worst difference, and fails if a difference exceeds
the limit.  It reads streams with rf-dump and shares no code with the library.

    differential.py losses PASS LOG EVAL      compares entropies, nll and both means of L_NTP, which follow
                                              from the logits of a pass
    differential.py entropies                 writes records with entropies, for rf-select
    differential.py positions IN CHUNKS K SMOOTH MARGIN MODE OUT...
                                              compares how often rf-select chose each position
    differential.py sequences DRAWN           writes each prefix with its rollout as a sequence
    differential.py rollouts DRAWN ALONE      compares rollouts and their rewards with a pass over these
                                              sequences
    differential.py policy DRAWN SCORED LOG   compares advantages, the policy loss and its statistics, L_NTP
    differential.py slope MODEL GRADIENT STREAM RL NTP
                                              compares changes of RL L_RL + NTP L_NTP at weights nearby with
                                              the gradient
    differential.py adamw FIRST LAST LOG LR DECAY CLIP:GRADIENT...
                                              compares the weights after one step of AdamW per gradient
    differential.py responses PASS LOG        compares L_NTP of the responses, which follows from the logits
                                              of a pass

Models and gradients are safetensors files, or directories of a model.  Of a log, the last line is compared.
"""
import array
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile

failed = False


# ---- files of the programs -----------------------------------------------------------------------


def records(path):
    """Returns the records of a stream."""
    dump = subprocess.run(["rf-dump", "--json", path], check=True, stdout=subprocess.PIPE)
    lines = [json.loads(line) for line in dump.stdout.splitlines()]
    return [line["body"] for line in lines if line["type"] == "seq"]


def numbers(x):
    """Returns an array of a record as nested lists, with exactly the record's numbers."""
    data = array.array("f", x["data"]).tolist() if x["dtype"] == "<f4" else x["data"]
    for n in reversed(x["shape"][1:]):
        data = [data[i : i + n] for i in range(0, len(data), n)]
    return data


def write_stream(bodies):
    """Writes records as lines for rf-cat --json."""
    messages = [{"type": "head", "body": {"format": 1, "history": [], "vocab": 40}}]
    messages += [{"type": "seq", "body": body} for body in bodies]
    messages += [{"type": "end", "body": {"count": len(bodies), "xxh64": 0}}]
    for seq, message in enumerate(messages):
        print(json.dumps({"seq": seq, **message}))


def vector(dtype, data):
    return {"dtype": dtype, "shape": [len(data)], "data": data}


def last_line(path):
    with open(path, encoding="utf-8") as lines:
        return json.loads(lines.readlines()[-1])


def read_tensors(path):
    """Returns the header of a safetensors file, and its float32 tensors by name."""
    if os.path.isdir(path):
        path = os.path.join(path, "model.safetensors")
    with open(path, "rb") as file:
        content = file.read()
    begin = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, tensor in json.loads(content[8:begin]).items():
        if name != "__metadata__":
            assert tensor["dtype"] == "F32", name
            first, last = tensor["data_offsets"]
            tensors[name] = array.array("f", content[begin + first : begin + last])
            if sys.byteorder == "big":
                tensors[name].byteswap()
    return content[:begin], tensors


def write_tensors(path, header, tensors):
    offsets = json.loads(header[8:])
    with open(path, "wb") as file:
        file.write(header)
        for name in sorted(tensors, key=lambda name: offsets[name]["data_offsets"][0]):
            data = array.array("f", tensors[name])
            if sys.byteorder == "big":
                data.byteswap()
            file.write(data.tobytes())


# ---- comparison ----------------------------------------------------------------------------------


def check(good, text):
    global failed
    failed |= not good
    print(text if good else text + ": WRONG")


def close(what, have, want, limit):
    """Compares two numbers, or two lists of the same length."""
    have, want = ([x] if isinstance(x, (int, float)) else list(x) for x in (have, want))
    same = len(have) == len(want) > 0
    worst = max((abs(x - y) for x, y in zip(have, want)), default=math.nan)
    near = all(abs(x - y) <= limit for x, y in zip(have, want))
    check(same and near, f"{what}: {len(have)} numbers, off by {worst:.1e} of at most {limit:.0e}")


def mean(values):
    return math.fsum(values) / len(values)


def log_softmax(z):
    top = max(z)
    total = math.log(math.fsum(math.exp(x - top) for x in z)) + top
    return [x - total for x in z]


def flat(nested):
    return [x for inner in nested for x in inner]


# ---- the pass over texts -------------------------------------------------------------------------


def nll_by_logits(record):
    logp = [log_softmax(z) for z in numbers(record["logits"])]
    return [-p[token] for p, token in zip(logp, numbers(record["tokens"])[1:])]


def losses(path, log, evaluation):
    texts = records(path)
    entropy, nll, correct = [], [], []
    for r in texts:
        z = numbers(r["logits"])
        entropy.append([-math.fsum(math.exp(x) * x for x in log_softmax(row)) for row in z])
        nll.append(nll_by_logits(r))
        correct.append([float(max(row) == row[t]) for row, t in zip(z, numbers(r["tokens"])[1:])])
    close("entropy", flat(numbers(r["entropy"]) for r in texts), flat(entropy), 3e-6)
    close("nll", flat(numbers(r["nll"]) for r in texts), flat(nll), 3e-6)
    with open(log, encoding="utf-8") as lines:
        tokens, sequences = [json.loads(line)["loss/ntp"] for line in lines]
    by_sequence = mean([mean(x) for x in nll])
    close("L_NTP, mean of tokens", tokens, mean(flat(nll)), 1e-6)
    close("L_NTP, mean of sequences", sequences, by_sequence, 1e-6)
    check(abs(by_sequence - mean(flat(nll))) > 1e-3, "the two means differ")
    figures = last_line(evaluation)
    close("accuracy", figures["accuracy"], mean(flat(correct)), 1e-6)
    close("NTP accuracy", figures["ntp_accuracy"],
          mean([math.exp(-x) for x in flat(nll)]), 1e-6)


# ---- positions -----------------------------------------------------------------------------------


def entropies():
    """Writes 200 records of each of three texts.  Entropies are high at the ends, where averages differ."""
    draw = random.Random(1).random
    of = []
    for length in (83, 200, 517):
        H = [4 * draw() for _ in range(length)]
        H[:3] = H[-3:] = 4.5, 4.5, 4.5
        of.append(H)
    write_stream([{"id": i, "tokens": vector("<i4", [3] * len(of[i % 3])),
                   "entropy": vector("<f4", of[i % 3])} for i in range(600)])


def averaged(H, kernel):
    """Returns avg_pool1d with stride 1: kernel // 2 zeros at the ends count; an even kernel is one wider."""
    if kernel == 1:
        return H
    kernel += kernel % 2 == 0
    padded = [0.0] * (kernel // 2) + H + [0.0] * (kernel // 2)
    return [math.fsum(padded[t : t + kernel]) / kernel for t in range(len(H))]


def chances(H, chunks, k, smooth, margin, mode):
    """Yields for each chunk the probability of each position."""
    rows = {"uniform": [1.0] * len(H), "entropy": averaged(H, smooth)}.get(mode, H)
    size = len(H) // chunks
    for first in range(0, chunks * size, size):
        chunk = rows[first : first + size]
        if mode in ("max", "min"):
            p = [0.0] * size
            p[chunk.index(max(chunk) if mode == "max" else min(chunk))] = 1.0
        else:
            p = [math.exp(x) for x in log_softmax(chunk)]
        at = {}
        for t, x in enumerate(p):
            s = min(max(first + t + 1, margin), len(H) - max(k, margin))
            at[s] = at.get(s, 0.0) + x
        yield {s: x for s, x in at.items() if x > 0}


def positions(source, chunks, k, smooth, margin, mode, *outputs):
    chunks, k, smooth, margin = int(chunks), int(k), int(smooth), int(margin)
    text_of = {r["id"]: len(r["entropy"]["data"]) for r in records(source)}
    H = {len(r["entropy"]["data"]): numbers(r["entropy"]) for r in records(source)}
    count = {(T, i): {} for T in H for i in range(chunks)}
    for output in outputs:
        table = ["rf-dump", "--tsv", "--no-header", "--rows", "position", "--columns", "id,position,s"]
        rows = subprocess.run([*table, output], check=True, stdout=subprocess.PIPE)
        for row in rows.stdout.splitlines():
            record, i, s = map(int, row.split(b"\t"))
            seen = count[text_of[record], i]
            seen[s] = seen.get(s, 0) + 1
    square, freedom, draws, impossible = 0.0, 0, 0, 0
    for T in H:
        for i, p in enumerate(chances(H[T], chunks, k, smooth, margin, mode)):
            seen = count[T, i]
            n = sum(seen.values())
            draws += n
            impossible += sum(x for s, x in seen.items() if s not in p)
            bins = [(seen.get(s, 0), n * x) for s, x in p.items() if n * x >= 5]
            few = [(seen.get(s, 0), n * x) for s, x in p.items() if n * x < 5]
            if few:
                bins.append((sum(x for x, _ in few), math.fsum(x for _, x in few)))
            square += math.fsum((have - want) ** 2 / want for have, want in bins)
            freedom += len(bins) - 1
    # chi-square has the mean `freedom` and twice that as variance
    check(draws == 3 * chunks * 200 * len(outputs) and not impossible and
          square <= freedom + 4 * math.sqrt(2 * freedom),
          f"{mode}, {chunks} chunks, k {k}, smooth {smooth}, margin {margin}: chi-square {square:.1f} of "
          f"{freedom} degrees; of {draws} draws {impossible} at impossible positions")


# ---- rollouts ------------------------------------------------------------------------------------


def branches(record):
    """Yields for each rollout s, the numbers of the position and of the rollout, and the tokens."""
    drawn = numbers(record["rollout"]["tokens"])
    for i, s in enumerate(numbers(record["positions"])):
        for j, tokens in enumerate(drawn[i]):
            yield s, i, j, tokens


def sequences(drawn):
    bodies = []
    for r in records(drawn):
        for s, _, _, tokens in branches(r):
            bodies.append({"id": len(bodies), "tokens": vector("<i4", numbers(r["tokens"])[:s] + tokens)})
    write_stream(bodies)


def cosine(a, b):
    def norm(x):
        return max(math.sqrt(math.fsum(y * y for y in x)), 1e-8)

    return math.fsum(x * y for x, y in zip(a, b)) / (norm(a) * norm(b))


def rollouts(drawn, alone):
    have, want = {}, {}
    shifted = []

    def compare(what, x, y):
        have.setdefault(what, []).extend(x)
        want.setdefault(what, []).extend(y)

    separate = iter(records(alone))
    for r in records(drawn):
        text, hidden = numbers(r["tokens"]), numbers(r["hidden"])
        logp, h_pred, h_gt = (numbers(r["rollout"][key]) for key in ("logp", "h_pred", "h_gt"))
        reward = {key: numbers(r["reward"][key]) for key in ("cosine", "binary", "total")}
        for s, i, j, tokens in branches(r):
            own = next(separate)
            k = len(tokens)
            states = numbers(own["hidden"])
            compare("logp", logp[i][j], [-x for x in numbers(own["nll"])[s - 1 :]])
            compare("h_pred", flat(h_pred[i][j]), flat(states[s:]))
            compare("h_gt", flat(h_gt[i]), flat(hidden[s : s + k]))
            alike = mean([cosine(x, y) for x, y in zip(h_pred[i][j], hidden[s : s + k])])
            equal = mean([float(x == y) for x, y in zip(tokens, text[s : s + k])])
            compare("cosine", [reward["cosine"][i][j]], [alike])
            compare("binary", [reward["binary"][i][j]], [equal])
            compare("hybrid", [reward["total"][i][j]], [alike + equal])
            shifted.append(mean([cosine(x, y) for x, y in zip(states[s - 1 :], hidden[s - 1 :])][:k]))
    check(next(separate, None) is None, f"{len(shifted)} rollouts")
    for what, x in have.items():
        top = max(map(abs, want[what]))
        close(what, x, want[what], 1e-5 * top if what in ("logp", "h_pred", "h_gt") else 1e-6)
    check(abs(mean(shifted) - mean(want["cosine"])) > 5e-3,
          f"mean cosine {mean(want['cosine']):.3f}, {mean(shifted):.3f} with states one token earlier")


# ---- the policy loss -----------------------------------------------------------------------------


def standardised(rewards):
    """Returns the advantages of rewards (c, n).  A group is the sequence if n is 1, otherwise a position."""
    groups = [flat(rewards)] if len(rewards[0]) == 1 else rewards
    result = []
    for group in groups:
        m = mean(group)
        std = math.sqrt(math.fsum((x - m) ** 2 for x in group) / (len(group) - 1))
        result += [(x - m) / (std + 1e-6) for x in group]
    return result


def token_losses(old, new, advantages, clip=0.2, dual=3.0):
    """Returns for each rollout token its loss, whether it is clipped, dual-clipped, and the log-ratio."""
    result = []
    for (old_logp, new_logp), A in zip(zip(old, new), advantages):
        for x, y in zip(old_logp, new_logp):
            d = min(max(y - x, -20.0), 20.0)
            plain, bound = -A * math.exp(d), -A * min(max(math.exp(d), 1 - clip), 1 + clip)
            once = max(plain, bound)
            loss = min(once, -A * dual) if A < 0 else once
            result.append((loss, float(bound > plain), float(A < 0 and once > -A * dual), d))
    return result


def logp_of(stream):
    return [tokens for r in stream for position in numbers(r["rollout"]["logp"]) for tokens in position]


def policy(drawn, scored, log):
    drawn, scored, log = records(drawn), records(scored), last_line(log)
    A = flat(standardised(numbers(r["reward"]["total"])) for r in drawn)
    close("advantages", flat(flat(numbers(r["advantage"])) for r in drawn), A, 1e-5)
    tokens = token_losses(logp_of(drawn), logp_of(scored), A)
    loss, clipped, dual, d = (list(x) for x in zip(*tokens))
    ratio = [math.exp(x) for x in d]
    for key, want in {
        "loss/rl": mean(loss),
        "actor/pg_loss_ttt": 0.2 * mean(loss),
        "actor/pg_clipfrac_ttt": mean(clipped),
        "actor/pg_clipfrac_lower_ttt": mean(dual),
        "actor/ppo_kl_ttt": -mean(d),
        "actor/kl3_ttt": mean([math.expm1(x) - x for x in d]),
        "actor/ratio_max": max(ratio),
        "loss/ntp": mean(flat(numbers(r["nll"]) for r in scored)),
    }.items():
        close(key, log[key], want, 2e-6 * max(1.0, *ratio))
    check(max(ratio) > 2 and sum(clipped) > 0 and sum(dual) > 0,
          f"{len(d)} tokens: ratios up to {max(ratio):.3g}, clipped {mean(clipped):.3f}, "
          f"dual-clipped {mean(dual):.3f}, L_RL {mean(loss):.6f}")


# ---- the gradient --------------------------------------------------------------------------------


def objective(model, stream, advantages, old, rl, ntp):
    with tempfile.NamedTemporaryFile() as out:
        entropy = subprocess.Popen(["rf-entropy", "-m", model, "--nll", stream], stdout=subprocess.PIPE)
        subprocess.run(["rf-rollout", "-m", model, "--score"], stdin=entropy.stdout, stdout=out, check=True)
        assert entropy.wait() == 0
        seen = records(out.name)
    policy_loss = mean([x[0] for x in token_losses(old, logp_of(seen), advantages)])
    return rl * policy_loss + ntp * mean(flat(numbers(r["nll"]) for r in seen))


def slope(model, gradient, stream, rl, ntp):
    """Compares slopes along the gradient and along three random directions, which show missing parts."""
    header, weights = read_tensors(model)
    gradient = read_tensors(gradient)[1]
    drawn = records(stream)
    advantages = flat(standardised(numbers(r["reward"]["total"])) for r in drawn)
    old = logp_of(drawn)
    size = math.sqrt(math.fsum(x * x for g in gradient.values() for x in g))
    count = sum(map(len, gradient.values()))
    draw = random.Random(2)
    for way in range(4):
        if way == 0:
            v = {name: [x / size for x in g] for name, g in gradient.items()}
        else:
            v = {name: [draw.gauss(0, 1) / math.sqrt(count) for _ in g] for name, g in gradient.items()}
        usual = size / (math.sqrt(count) if way else 1)
        rise = []
        for step in 2e-4 / usual, 4e-4 / usual:
            value, at = [], []
            for sign in 1, -1:
                at.append({name: array.array("f", [x + sign * step * y for x, y in zip(w, v[name])])
                           for name, w in weights.items()})
                with tempfile.TemporaryDirectory() as path:
                    shutil.copytree(model, path, dirs_exist_ok=True, copy_function=shutil.copyfile)
                    write_tensors(os.path.join(path, "model.safetensors"), header, at[-1])
                    value.append(objective(path, stream, advantages, old, float(rl), float(ntp)))
            # uses the distance of the weights after rounding to float32
            want = math.fsum(g * (x - y) for name in weights
                             for g, x, y in zip(gradient[name], at[0][name], at[1][name]))
            rise.append((value[0] - value[1] - want) / (2 * step))
        error = (4 * rise[0] - rise[1]) / 3  # without the term in step^2
        want /= 2 * step
        close(f"{rl} L_RL + {ntp} L_NTP, slope along {f'direction {way}' if way else 'the gradient'} "
              f"{want:.6g}, ratio {1 + error / want:.5f}", want + error, want, 2e-3 * usual)


def adamw(first, last, log, lr, decay, *steps):
    lr, decay = float(lr), float(decay)
    before, have = read_tensors(first)[1], read_tensors(last)[1]
    with open(log, encoding="utf-8") as lines:
        norms = [json.loads(line)["actor/grad_norm_ttt"] for line in lines]
    weights = {name: list(w) for name, w in before.items()}
    m = {name: [0.0] * len(w) for name, w in weights.items()}
    v = {name: [0.0] * len(w) for name, w in weights.items()}
    want_norms = []
    for t, (clip, path) in enumerate((step.split(":", 1) for step in steps), 1):
        gradient = read_tensors(path)[1]
        norm = math.sqrt(math.fsum(x * x for g in gradient.values() for x in g))
        want_norms.append(norm)
        scale = min(1.0, float(clip) / (norm + 1e-6))
        for name, g in gradient.items():
            for i, x in enumerate(g):
                x *= scale
                m[name][i] = 0.9 * m[name][i] + 0.1 * x
                v[name][i] = 0.999 * v[name][i] + 0.001 * x * x
                root = math.sqrt(v[name][i] / (1 - 0.999**t))
                weights[name][i] -= lr * decay * weights[name][i]
                weights[name][i] -= lr * m[name][i] / (1 - 0.9**t) / (root + 1e-8)
    close("norm of the gradient", norms, want_norms, 1e-6 * max(want_norms))
    change = max(abs(x - y) for name, w in have.items() for x, y in zip(w, before[name]))
    close(f"weights, which change by up to {change:.2g}", flat(have[name] for name in sorted(weights)),
          flat(weights[name] for name in sorted(weights)), 1e-6)
    check(set(have) == set(weights) == set(gradient) and
          min(max(abs(x - y) for x, y in zip(have[name], before[name])) for name in have) > lr / 2,
          f"all {len(have)} tensors change")


def responses(path, log):
    loss = flat(nll_by_logits(r)[r["prompt_len"] - 1 :] for r in records(path))
    close("L_NTP of the responses", last_line(log)["actor/sft_loss"], mean(loss), 2e-6)
    with open(log, encoding="utf-8") as lines:
        steps = [json.loads(line) for line in lines]
    prompts = sum(r["prompt_len"] for r in records(path))
    read = sum(step["tokens"] for step in steps[:-1])
    check(read == prompts, f"the {len(steps) - 1} inner steps read {read} tokens, the prompts have {prompts}")


commands = (losses, entropies, positions, sequences, rollouts, policy, slope, adamw, responses)
{f.__name__: f for f in commands}[sys.argv[1]](*sys.argv[2:])
sys.exit(failed)
