"""Computes reference values for the policy losses, in float64 with PyTorch.

    python losses.py GOLDEN/delta OUT

reads config.json, model.safetensors and expected.safetensors of a small DeltaNet, and writes

    OUT/rewarded.jsonl        a stream of three records with rollouts and rewards, in the JSON form of
                              rf-stream(5)
    OUT/expected.safetensors  for each variant V of the loss: V.loss (mean l, mean kl, mean H, L), V.NAME (the
                              gradient of L by the weight NAME), V.advantage.ID (c, n)
    OUT/policy.json           the same losses of log-probabilities: for each token l, kl and dlogp, the
                              derivative of the sum of l + kl_coef * kl over the tokens of the rollout

Every run writes the same bytes.  The program needs torch and safetensors.
"""

import json
import math
import os
import random
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

torch.set_default_dtype(torch.float64)

TEMPERATURE = 0.8
K = 4  # tokens in a row of a rollout; a rollout has 1 to K
LOG_LIMIT = 20.0  # logarithms of ratios are limited to +-20

# The settings of a loss, and how each variant differs from them.
DEFAULT = {
    "objective": "grpo",  # grpo, cispo
    "ratio": "token",  # token, sequence
    "mean": "tokens",  # tokens, rollouts, constant
    "advantage": "group",  # group, no-std, loo, running
    "baseline": 0.0,  # for running
    "eps_low": 0.2,
    "eps_high": 0.2,
    "c_dual": 3.0,
    "kl": "k3",
    "kl_coef": 0.0,
    "entropy_coef": 0.0,
    "zero_spread": "keep",  # keep, drop
}
VARIANTS = {
    "base": {},
    "clip_high": {"eps_high": 0.28},
    "rollouts": {"mean": "rollouts"},
    "constant": {"mean": "constant", "advantage": "no-std"},
    "gspo": {"ratio": "sequence", "mean": "rollouts", "eps_low": 0.03, "eps_high": 0.04},
    "gspo_tokens": {"ratio": "sequence", "eps_low": 0.03, "eps_high": 0.04},
    "cispo": {"objective": "cispo"},
    "cispo_tis": {"objective": "cispo", "eps_low": 1.0, "eps_high": 1.0},
    "cispo_sequence": {"objective": "cispo", "ratio": "sequence", "mean": "rollouts"},
    "kl_k1": {"kl": "k1", "kl_coef": 0.1},
    "kl_k2": {"kl": "k2", "kl_coef": 0.1},
    "kl_k3": {"kl": "k3", "kl_coef": 0.1},
    "kl_rollouts": {"kl": "k3", "kl_coef": 0.1, "mean": "rollouts"},
    "entropy": {"entropy_coef": 0.05},
    "entropy_constant": {"entropy_coef": 0.05, "mean": "constant"},
    "drop": {"zero_spread": "drop"},
    "drop_all": {
        "zero_spread": "drop",
        "kl": "k3",
        "kl_coef": 0.1,
        "entropy_coef": 0.05,
        "mean": "rollouts",
        "objective": "cispo",
        "eps_high": 0.28,
    },
    "loo": {"advantage": "loo"},
    "running": {"advantage": "running", "baseline": 0.4},
    "no_std": {"advantage": "no-std"},
}
VARIANTS = {name: {**DEFAULT, **changes} for name, changes in VARIANTS.items()}


# ---- the model ------------------------------------------------------------------------------------


def norm(x, w, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w


def logits_of(cfg, w, tokens):
    """Returns the logits (B, T, N) of tokens (B, T), by DeltaNet: short convolutions, beta, silu and l2 on
    q and k, output norm."""
    B, T = tokens.shape
    H, d, eps = cfg["num_heads"], cfg["hidden_size"], cfg["norm_eps"]
    D = d // H

    def conv(x, taps):  # x (B, T, C), taps (C, 1, W): causal; the last tap meets the current token
        W = taps.shape[-1]
        return F.conv1d(F.pad(x.mT, (W - 1, 0)), taps, groups=x.shape[-1]).mT

    h = w["model.embeddings.weight"][tokens]
    for i in range(cfg["num_hidden_layers"]):
        p = lambda name: w[f"model.layers.{i}.{name}.weight"]
        x = norm(h, p("attn_norm"), eps)
        q, k, v = (
            F.silu(conv(x @ p(f"attn.{n}_proj").T, p(f"attn.{n}_conv1d"))).view(B, T, H, D) for n in "qkv"
        )
        q, k = (y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6) for y in (q, k))
        beta = torch.sigmoid(x @ p("attn.b_proj").T)  # (B, T, H)
        S, out = torch.zeros(B, H, D, D), []  # S: key by value
        for t in range(T):
            error = v[:, t] - torch.einsum("bhkv,bhk->bhv", S, k[:, t])
            S = S + torch.einsum("bhk,bhv->bhkv", k[:, t], beta[:, t, :, None] * error)
            out.append(torch.einsum("bhkv,bhk->bhv", S, q[:, t]) / math.sqrt(D))
        o = norm(torch.stack(out, 1), p("attn.o_norm"), eps)
        h = h + o.reshape(B, T, d) @ p("attn.o_proj").T
        x = norm(h, p("mlp_norm"), eps)
        h = h + (F.silu(x @ p("mlp.gate_proj").T) * (x @ p("mlp.up_proj").T)) @ p("mlp.down_proj").T
    return norm(h, w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def load(folder):
    cfg = json.load(open(os.path.join(folder, "config.json")))
    fixed = {
        "model_type": "delta_net",
        "qk_norm": "l2",
        "qk_activation": "silu",
        "use_short_conv": True,
        "use_beta": True,
        "use_gate": False,
        "use_output_norm": True,
        "attn": None,
        "tie_word_embeddings": False,
        "expand_k": 1.0,
        "expand_v": 1.0,
    }
    for key, value in fixed.items():
        assert cfg[key] == value, f"this model has another {key}"
    w = {name: x.double() for name, x in load_file(os.path.join(folder, "model.safetensors")).items()}
    e = load_file(os.path.join(folder, "expected.safetensors"))
    with torch.no_grad():
        x, y = logits_of(cfg, w, e["tokens"].long()[None])[0], e["logits"].double()
    error = float((x - y).abs().max() / y.abs().max())
    print(f"logits against expected.safetensors: {error:.1e}")
    assert error < 1e-5
    return cfg, w


# ---- the losses, per rollout ----------------------------------------------------------------------
# lp, old, ref are the log-probabilities (|o|) of the tokens of one rollout: now, when it was made, by the
# reference model.


def log_ratio(lp, old, s):
    x = lp - old
    if s["ratio"] == "sequence":
        x = x.mean().expand(len(lp))
    return x.clamp(-LOG_LIMIT, LOG_LIMIT)


def policy_terms(lp, old, A, s, frozen=None):
    """Returns l (|o|).  A is a number, or one for each token.  frozen: the clipped ratio of cispo, if lp is
    not where it was computed."""
    r = torch.exp(log_ratio(lp, old, s))
    if (
        s["ratio"] == "sequence" and torch.is_tensor(A) and A.dim()
    ):  # GSPO-token: the value of s_i, the gradient of token t
        r = r.detach() * torch.exp(lp - lp.detach())
    clipped = r.clamp(1 - s["eps_low"], 1 + s["eps_high"])
    if s["objective"] == "cispo":
        return -(clipped.detach() if frozen is None else frozen) * A * lp
    A = torch.as_tensor(A, dtype=lp.dtype)
    l = torch.maximum(-A * r, -A * clipped)
    return torch.where(A < 0, torch.minimum(l, -A * s["c_dual"]), l)


def kl_terms(lp, ref, s):
    d = (ref - lp).clamp(-LOG_LIMIT, LOG_LIMIT)
    return {"k1": -d, "k2": d.square() / 2, "k3": torch.expm1(d) - d}[s["kl"]]


def advantages(R, s):
    """Returns the advantages (c, n) of rewards R (c, n); a group is a row."""
    n = R.shape[1]
    if s["advantage"] == "running":
        return R - s["baseline"]
    if s["advantage"] == "loo":
        A = R - (R.sum(1, keepdim=True) - R) / (n - 1)
    else:
        A = R - R.mean(1, keepdim=True)
        if s["advantage"] == "group":
            A = A / (R.std(1, keepdim=True) + 1e-6)  # the divisor of this std is n - 1
    return torch.where(zero_spread(R), 0.0, A)


def zero_spread(R):
    return (R == R[:, :1]).all(1, keepdim=True)


def mean(terms, s):
    """Returns the mean of terms: one tensor (|o|) for each rollout."""
    if s["mean"] == "tokens":
        return torch.cat(terms).sum() / sum(len(x) for x in terms)
    if s["mean"] == "rollouts":
        return torch.stack([x.mean() for x in terms]).mean()
    return torch.cat(terms).sum() / (len(terms) * K)


def loss(batch, lps, entropies, s, frozen=None):
    """Returns (mean l, mean kl, mean H, L).  lps, entropies: a tensor (|o|) for each rollout of the batch."""
    l, kl, H = [], [], []
    for i, o in enumerate(batch):
        if s["zero_spread"] == "drop" and o["zero_spread"]:
            continue
        l.append(
            policy_terms(lps[i], o["old"], o["A"][s["advantage"], s["baseline"]], s, frozen and frozen[i])
        )
        kl.append(kl_terms(lps[i], o["ref"], s))
        H.append(entropies[i])
    zero = torch.zeros(())
    parts = (mean(l, s), mean(kl, s) if s["kl_coef"] else zero, mean(H, s) if s["entropy_coef"] else zero)
    return (*parts, parts[0] + s["kl_coef"] * parts[1] - s["entropy_coef"] * parts[2])


# ---- the stream -----------------------------------------------------------------------------------


def single(x):
    """Rounds to float32, and back."""
    return x.float().double()


def sequences(records):
    """Returns all rollouts in order: {record, i, r, tokens: prefix and rollout, start}."""
    out = []
    for rec in records:
        for i, s in enumerate(rec["positions"]):
            for r in range(rec["n"]):
                roll = rec["rollout"][i, r, : rec["length"][i, r]]
                out.append(
                    {
                        "record": rec,
                        "i": i,
                        "r": r,
                        "start": s,
                        "tokens": torch.cat([rec["tokens"][:s], roll]),
                    }
                )
    return out


def run(cfg, w, seqs):
    """Returns the log-probabilities and entropies at the rows that predict the rollout tokens; one tensor
    (|o|) for each rollout."""
    T = max(len(q["tokens"]) for q in seqs)
    # the model is causal, so the padding changes nothing before it
    rows = torch.stack([F.pad(q["tokens"], (0, T - len(q["tokens"]))) for q in seqs])
    logp = (logits_of(cfg, w, rows) / TEMPERATURE).log_softmax(-1)
    lps, entropies = [], []
    for q, x in zip(seqs, logp):
        a, b = q["start"], len(q["tokens"])
        x = x[a - 1 : b - 1]
        lps.append(x.gather(-1, q["tokens"][a:b, None])[:, 0])
        entropies.append(-(x.exp() * x).sum(-1))
    return lps, entropies


def make_records(vocab):
    """Returns records with tokens, positions and lengths."""
    g = torch.Generator().manual_seed(20)
    ids = lambda *shape: torch.randint(3, vocab, shape, generator=g)
    lengths = [[[4, 2, 1, 3], [3, 4, 4, 1]], [[2, 3, 4, 2]], [[1, 4, 3, 2], [4, 2, 1, 4]]]
    records = []
    for i, (T, positions) in enumerate(((14, [1, 8]), (11, [4]), (9, [3, 5]))):
        c, n = len(positions), 4
        records.append(
            {
                "id": i,
                "n": n,
                "tokens": ids(T),
                "positions": positions,
                "rollout": ids(c, n, K),
                "length": torch.tensor(lengths[i]),
            }
        )
    return records


def add_noise(records, seqs, lps, seed):
    """Adds log-probabilities, old and of a reference, and rewards, as float32 numbers."""
    g = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(shape, generator=g)
    uniform = lambda *shape: torch.rand(shape, generator=g)
    for rec in records:
        c, n = rec["length"].shape
        rec["reward"] = single(uniform(c, n))
        rec["old"], rec["ref"] = single(-9 * uniform(c, n, K)), single(-9 * uniform(c, n, K))
    records[2]["reward"][1] = 0.75  # a group without spread
    for q, lp in zip(seqs, lps):
        m = len(lp)
        wide = torch.where(uniform(m) < 0.15, 4.0, 1.0)  # a few tokens differ more
        old = lp + 0.35 * wide * normal(m)
        if uniform(1) < 0.1:
            old = old - 1.4  # a rollout that is far more likely now
        q["record"]["old"][q["i"], q["r"], :m] = single(old.clamp(max=-0.01))
        q["record"]["ref"][q["i"], q["r"], :m] = single((lp + 0.5 * normal(m)).clamp(max=-0.01))


def make_batch(records, seqs):
    """Returns a map for each rollout: old, ref, zero_spread, and its advantage of each kind."""
    kinds = {(s["advantage"], s["baseline"]): s for s in VARIANTS.values()}
    for rec in records:
        rec["A"] = {kind: advantages(rec["reward"], s) for kind, s in kinds.items()}
    batch = []
    for q in seqs:
        rec, at, m = q["record"], (q["i"], q["r"]), len(q["tokens"]) - q["start"]
        batch.append(
            {
                "old": rec["old"][at][:m],
                "ref": rec["ref"][at][:m],
                "zero_spread": bool(zero_spread(rec["reward"])[q["i"], 0]),
                "A": {kind: rec["A"][kind][at] for kind in kinds},
            }
        )
    return batch


def branches(x, A, s):
    """Returns where the logarithm of a ratio lies, with the sign of the advantage."""
    low, high = math.log(max(1 - s["eps_low"], 1e-9)), math.log(1 + s["eps_high"])
    place = (
        "below" if x < low else "inside" if x <= high else "above" if x < math.log(s["c_dual"]) else "dual"
    )
    return place, "+" if A > 0 else "-"


def margin_and_branches(batch, lps):
    """Returns the least distance of a log-ratio from a bend, and how often each branch occurs."""
    least, count = math.inf, {}
    for name, s in VARIANTS.items():
        bends = [math.log(b) for b in (1 - s["eps_low"], 1 + s["eps_high"], s["c_dual"]) if b > 0]
        for o, lp in zip(batch, lps):
            A = float(o["A"][s["advantage"], s["baseline"]])
            for x in log_ratio(lp, o["old"], s).tolist()[: 1 if s["ratio"] == "sequence" else None]:
                least = min([least] + [abs(x - b) for b in bends])
                if A:
                    key = (name, *branches(x, A, s))
                    count[key] = count.get(key, 0) + 1
            if A:
                least = min(least, abs(A) / 10)  # nor may rounding change the sign of an advantage
    return least, count


def wanted(batch, lps):
    """Returns whether every branch occurs, farther from the bends than float32 rounds."""
    least, count = margin_and_branches(batch, lps)
    places = [
        ("below", "+"),
        ("below", "-"),
        ("inside", "+"),
        ("inside", "-"),
        ("above", "+"),
        ("above", "-"),
        ("dual", "-"),
    ]
    return least > 2e-3 and all(
        count.get((v, *p), 0) >= m for v, m in (("base", 2), ("gspo", 1)) for p in places
    )


def number(x):
    """Returns the shortest decimal of a float32 number."""
    for digits in range(1, 10):
        y = float(f"{x:.{digits}g}")
        if float(torch.tensor(y, dtype=torch.float32)) == x:
            return y
    raise ValueError(f"{x} is not a float32 number")


def array(x):
    data = x.flatten().tolist()
    if x.is_floating_point():
        return {"dtype": "<f4", "shape": list(x.shape), "data": [number(v) for v in data]}
    return {"dtype": "<i4", "shape": list(x.shape), "data": data}


def write_stream(path, records, vocab):
    lines = [["head", {"format": 1, "vocab": vocab, "seed": 1, "history": []}]]
    for rec in records:
        lines.append(
            [
                "seq",
                {
                    "id": rec["id"],
                    "tokens": array(rec["tokens"]),
                    "positions": array(torch.tensor(rec["positions"])),
                    "rollout": {
                        "temperature": TEMPERATURE,
                        "tokens": array(rec["rollout"]),
                        "length": array(rec["length"]),
                        "logp": array(rec["old"]),
                        "logp_ref": array(rec["ref"]),
                    },
                    "reward": {"kind": "cosine", "total": array(rec["reward"])},
                },
            ]
        )
    lines.append(["end", {"count": len(records), "xxh64": 0}])  # the reader computes the hash
    with open(path, "w") as f:
        for i, (kind, body) in enumerate(lines):
            f.write(json.dumps({"seq": i, "type": kind, "body": body}, separators=(",", ":")) + "\n")


# ---- checks ---------------------------------------------------------------------------------------


def finite_differences(cfg, w, seqs, batch, grads, per_tensor=4, step=1e-5):
    """Returns the worst error of a derivative, over the largest one of its tensor, for each variant."""
    rng = random.Random(5)
    with torch.no_grad():
        lps, _ = run(cfg, w, seqs)
        frozen = {
            name: [
                torch.exp(log_ratio(lp, o["old"], s)).clamp(1 - s["eps_low"], 1 + s["eps_high"])
                for o, lp in zip(batch, lps)
            ]
            for name, s in VARIANTS.items()
            if s["objective"] == "cispo"
        }
        worst = {name: 0.0 for name in VARIANTS}
        for name, x in w.items():
            flat = x.view(-1)
            for j in rng.sample(range(flat.numel()), min(per_tensor, flat.numel())):
                kept, L = float(flat[j]), []
                for h in (step, -step):
                    flat[j] = kept + h
                    lps, entropies = run(cfg, w, seqs)
                    L.append(
                        {
                            v: float(loss(batch, lps, entropies, s, frozen.get(v))[3])
                            for v, s in VARIANTS.items()
                        }
                    )
                flat[j] = kept
                for v in VARIANTS:
                    numeric = (L[0][v] - L[1][v]) / (2 * step)
                    error = abs(numeric - float(grads[v][name].view(-1)[j])) / float(
                        grads[v][name].abs().max()
                    )
                    worst[v] = max(worst[v], error)
    return worst


# ---- the losses of given log-probabilities ----------------------------------------------------------


def table_rollouts(s, rng, token_advantages=False):
    """Makes twelve rollouts of 1 to K tokens in which every branch of the loss occurs."""
    low, high, dual = (
        math.log(max(1 - s["eps_low"], 1e-2)),
        math.log(1 + s["eps_high"]),
        math.log(s["c_dual"]),
    )
    u = rng.uniform
    draw = {
        "below": lambda: low - u(0.05, 0.6),
        "inside": lambda: low + (high - low) * u(0.1, 0.9),
        "above": lambda: high + u(0.02, 0.3),
        "dual": lambda: dual + u(0.1, 1.5),
        "far above": lambda: u(20.5, 24),
        "far below": lambda: -u(20.5, 24),
    }
    places = ["below", "inside", "above", "dual"]
    plan = [(p, sign) for p in places for sign in (1, -1)] + [
        ("above", 0),
        ("far above", -1),
        ("far below", 1),
        ("below", 1),
    ]
    lengths = [3, 4, 2, 1, 4, 3, 1, 4, 2, 2, 3, 4]
    f = lambda x: float(torch.tensor(x, dtype=torch.float32))  # inputs are float32 numbers
    out = []
    for i, ((place, sign), m) in enumerate(zip(plan, lengths)):
        far = place.startswith("far")
        if s["ratio"] == "sequence":  # the mean lies at the place
            x = [u(-0.8, 0.8) for _ in range(m)]
            shift = draw[place]() - sum(x) / m
            x = [y + shift for y in x]
        else:  # the first token lies there, others anywhere
            x = [draw[place]()] + [draw[rng.choice(places)]() for _ in range(m - 1)]
        logp = [f(-u(0.05, 4) + min(y, 0)) for y in x]  # then old is below 0, too
        if i == 2:
            logp[0] = f(logp[0] - 22)
        old = [f(a - y) for a, y in zip(logp, x)]
        ref = [f(min(a + rng.gauss(0, 1), -0.01)) for a in logp]
        if i == 2:
            ref[0] = f(logp[0] + 21.5)  # d beyond its limits, and 0
            ref[1] = f(logp[1] - 22.5)
        if i == 3:
            ref[0] = logp[0]
        A = f(sign * u(0.2, 2.5))
        if token_advantages:
            A = [f((sign or 1) * u(0.2, 2.5) * (1 if j % 2 == 0 else -1)) for j in range(m)]
            if sign == 0:
                A[0] = 0.0
        out.append({"logp": logp, "old": old, "ref": ref, "A": A})
    return out


def table(name, s, rng, token_advantages=False):
    rollouts = table_rollouts(s, rng, token_advantages)
    results = {"loss": [], "kl": [], "dlogp": []}
    clean = lambda x: [v + 0.0 for v in x.tolist()]  # no negative zeros
    for o in rollouts:
        lp = torch.tensor(o["logp"], requires_grad=True)
        A = torch.tensor(o["A"]) if token_advantages else o["A"]
        l = policy_terms(lp, torch.tensor(o["old"]), A, s)
        kl = kl_terms(lp, torch.tensor(o["ref"]), s) if s["kl_coef"] else torch.zeros(len(lp))
        (dlogp,) = torch.autograd.grad((l + s["kl_coef"] * kl).sum(), lp)
        for key, x in (("loss", l), ("kl", kl), ("dlogp", dlogp)):
            results[key].append(clean(x.detach()))
    return {"name": name, "settings": s, "rollouts": rollouts, **results}


def check_table(tables):
    """Checks the tables against formulas by cases."""
    for t in tables:
        s, seen = t["settings"], set()
        for o, dl in zip(t["rollouts"], t["dlogp"]):
            x = [a - b for a, b in zip(o["logp"], o["old"])]
            if s["ratio"] == "sequence":
                x = [sum(x) / len(x)] * len(x)
            for j, y in enumerate(x):
                A = o["A"][j] if isinstance(o["A"], list) else o["A"]
                assert max(o["logp"][j], o["old"][j], o["ref"][j]) < 0, "a probability above 1"
                place, sign = branches(y, A, s)
                seen.add((place, sign) if A else "zero")
                r = math.exp(min(max(y, -LOG_LIMIT), LOG_LIMIT))
                clip = min(max(r, 1 - s["eps_low"]), 1 + s["eps_high"])
                if s["objective"] == "cispo":
                    want = -clip * A
                else:
                    moves = abs(y) < LOG_LIMIT and (
                        r > 1 - s["eps_low"] if A < 0 else r < 1 + s["eps_high"]
                    )
                    want = -A * r if moves and not (A < 0 and r > s["c_dual"]) else 0.0
                d = o["ref"][j] - o["logp"][j]
                if s["kl_coef"] and abs(d) < LOG_LIMIT:
                    want += s["kl_coef"] * {"k1": 1.0, "k2": -d, "k3": 1 - math.exp(d)}[s["kl"]]
                # beyond the limit, sg[s_i] pi / sg[pi] still has the derivative exp(-20)
                assert abs(want - dl[j]) <= 1e-8 + 1e-9 * abs(want), (t["name"], o, j, want, dl[j])
        assert {(p, q) for p in ("inside", "above", "dual") for q in "+-"} <= seen, (t["name"], seen)
        assert s["eps_low"] >= 1 or {("below", "+"), ("below", "-")} <= seen, (t["name"], seen)
        assert "zero" in seen


# ---- all of it ------------------------------------------------------------------------------------


def main(folder, out):
    os.makedirs(out, exist_ok=True)
    cfg, w = load(folder)
    records = make_records(cfg["vocab_size"])
    seqs = sequences(records)
    with torch.no_grad():
        lps, _ = run(cfg, w, seqs)
    seed = 0
    while True:  # the first seed with which every branch occurs
        seed += 1
        add_noise(records, seqs, lps, seed)
        batch = make_batch(records, seqs)
        if wanted(batch, lps):
            break
    least, count = margin_and_branches(batch, lps)
    print(f"seed {seed}; log-ratios are at least {least:.1e} away from every bend")
    for v in ("base", "gspo"):
        print(
            f"  {v}:",
            ", ".join(
                f"{p}{q} {count.get((v, p, q), 0)}"
                for p in ("below", "inside", "above", "dual")
                for q in "+-"
            ),
        )
    write_stream(os.path.join(out, "rewarded.jsonl"), records, cfg["vocab_size"])

    leaves = {name: x.clone().requires_grad_() for name, x in w.items()}
    lps, entropies = run(cfg, leaves, seqs)
    expected, grads = {}, {}
    for v, s in VARIANTS.items():
        parts = loss(batch, lps, entropies, s)
        grads[v] = dict(
            zip(leaves, torch.autograd.grad(parts[3], list(leaves.values()), retain_graph=True))
        )
        expected[f"{v}.loss"] = torch.stack(parts).detach()
        expected |= {f"{v}.{name}": x for name, x in grads[v].items()}
        expected |= {
            f"{v}.advantage.{rec['id']}": rec["A"][s["advantage"], s["baseline"]] for rec in records
        }
    save_file(
        {name: x.detach().float().contiguous() for name, x in expected.items()},
        os.path.join(out, "expected.safetensors"),
    )

    worst = finite_differences(cfg, w, seqs, batch, grads)
    for v in VARIANTS:
        print(
            f"  {v:18s} loss",
            " ".join(f"{x:11.6f}" for x in expected[f"{v}.loss"].tolist()),
            f"  finite differences {worst[v]:.1e}",
        )
    assert max(worst.values()) < 1e-6

    rng = random.Random(11)
    tables = [table(v, s, rng) for v, s in VARIANTS.items() if not s["entropy_coef"]]
    tables.append(table("gspo_token_advantages", VARIANTS["gspo"], rng, token_advantages=True))
    check_table(tables)
    with open(os.path.join(out, "policy.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(t) for t in tables) + "\n]\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: losses.py GOLDEN/delta OUT")
    main(*sys.argv[1:])
