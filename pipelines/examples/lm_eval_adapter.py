#!/usr/bin/env python3
"""lm_eval_adapter.py -- the tasks of lm-evaluation-harness on a model of rf-tools:

    pip install lm-eval
    python3 lm_eval_adapter.py --model rf --model_args model=RUN --tasks hellaswag,wikitext,fda

It is the command line of lm-eval with one more --model, and needs neither torch nor a GPU.  Its arguments:

    model=PATH        a run or a checkpoint; of a run, the newest step at the start
    bin=DIR           the folder of the programs; default: those of $PATH
    tokenizer=PATH    default: the tokenizer of the model
    max_length=N      tokens of prompt and answer together; default: any number.  A task must write fewer
                      tokens; a longer prompt is cut on the left
    max_gen_toks=N    tokens to write if the task has no number; default: 256; 0 writes none
    options=WORDS     options of every program that runs the model: options=--threads 2 --dtype bf16

Exit status: 0 done, 64 usage, 69 lm-eval or a program is missing, 70 lm-eval failed, 71 out of memory, 74
writing failed, otherwise that of the program that failed, which has printed why.  A signal, or a reader that
closes the output, ends it as it ends other programs (143, 141).
"""
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import program  # noqa: E402

NAME = "lm_eval_adapter.py"
if __name__ == "__main__":  # before any other file is opened
    program.open_standard_files()
    program.handle_signals()
try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
except ImportError as missing:
    if __name__ != "__main__":
        raise
    program.say(NAME, f"lm-eval is missing: pip install lm-eval ({program.one_line(missing)})")
    sys.exit(program.UNAVAILABLE)


class Refused(ValueError):
    """A value that cannot be served, in one sentence."""


@register_model("rf")
class RfTools(LM):
    def __init__(self, model, bin="", tokenizer=None, max_length=None, max_gen_toks=256, options="",
                 device=None, batch_size=None, max_batch_size=None):
        super().__init__()  # lm-eval always passes the last three; the programs know better
        model = str(model)
        latest = os.path.join(model, "latest")
        if os.path.islink(latest):  # the run may train on
            model = os.path.join(model, os.readlink(latest))
        self.bin, self.tokenizer = bin, str(tokenizer or model)
        self.max_length = None if max_length is None else int(max_length)
        self.max_gen_toks = 256 if max_gen_toks is None else int(max_gen_toks)
        if self.max_length is not None and self.max_length < 1:
            raise Refused(f"max_length={max_length}: a model must be able to read at least 1 token")
        if self.max_gen_toks < 0:
            raise Refused(f"max_gen_toks={max_gen_toks}: "
                             "the number of tokens to write must not be negative")
        self.run_model = ["-m", model, *shlex.split(str(options))]

    def pipe(self, lines, *stages):
        """Returns the head and the bodies of the records that a pipe of programs makes of the lines.

        A program that fails has said why, so its exit status ends lm-eval.  If it was the last one, those
        before it may have ended by SIGPIPE, which says nothing.
        """
        with tempfile.TemporaryFile() as before:
            before.writelines(json.dumps(line).encode() + b"\n" for line in lines)
            before.seek(0)
            running = []
            for stage in [*stages, ["rf-dump", "--json"]]:
                command = [os.path.join(self.bin, stage[0]), *stage[1:]]
                try:
                    running.append(subprocess.Popen(command, stdin=before, stdout=subprocess.PIPE))
                except OSError as error:
                    raise program.Failure(program.UNAVAILABLE, f"{command[0]}: {error.strerror} (bin= names "
                                          "the folder of the programs)") from None
                before.close()
                before = running[-1].stdout
            lines = before.readlines()
            before.close()
        failed = [status for stage in running if (status := stage.wait())]
        if failed:
            status = next((status for status in failed if status != -signal.SIGPIPE), failed[0])
            sys.exit(status if status > 0 else 128 - status)
        messages = [json.loads(line) for line in lines]
        return messages[0], [message["body"] for message in messages[1:-1]]

    def encode(self, lines, *options):
        return self.pipe(lines, ["rf-tokenize", "--tokenizer", self.tokenizer, "--bos", "auto", *options])

    def encode_pairs(self, pairs):
        """Of each text and its continuation the ids, by lm-eval's own rule, which rf-tokenize(1) has."""
        head, records = self.encode(({"context": c, "choice": k} for c, k in pairs),
                                    "--prompt-key", "context", "--choices-key", "choice")
        return head, [(r["tokens"]["data"], r["choice"]["tokens"]["data"]) for r in records]

    def score(self, head, pairs):
        """[(log-probability, greedy?)] of pairs of ids.  All that continue the same ids are one question."""
        questions = {}
        for i, (context, choice) in enumerate(pairs):
            if self.max_length is not None:
                if len(choice) > self.max_length:
                    raise Refused(f"a continuation has {len(choice)} tokens, more than "
                                     f"max_length={self.max_length}")
                context = context[-(self.max_length + 1 - len(choice)):]
            questions.setdefault(tuple(context), []).append(i)
        records, results = [], [None] * len(pairs)
        for context, asked in questions.items():
            choices = [pairs[i][1] for i in asked]
            m = max(map(len, choices))
            flat = [token for c in choices for token in c + [0] * (m - len(c))]
            records.append({"tokens": array(context, len(context)), "choice": {
                "tokens": array(flat, len(choices), m), "length": array(map(len, choices), len(choices))}})
        _, records = self.pipe(stream(head, records), ["rf-cat", "--json"], ["rf-logp", *self.run_model])
        for asked, r in zip(questions.values(), records, strict=True):
            for i, logp, greedy in zip(asked, r["choice"]["logp"]["data"], r["choice"]["greedy"]["data"]):
                results[i] = (logp, bool(greedy))
        return results

    def loglikelihood(self, requests, disable_tqdm=False):
        results = self.score(*self.encode_pairs(r.args for r in requests)) if requests else []
        return self.remember("loglikelihood", requests, results)

    def prefix(self):
        """Returns what an empty text is read as: the id of bos, or else of eos."""
        _, [(prefix, _)] = self.encode_pairs([("", "a")])
        return prefix

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        pairs, whose, sums = [], [], [0.0] * len(requests)
        prefix = self.prefix()
        head, records = self.encode(({"text": r.args[0], "i": i} for i, r in enumerate(requests)),
                                    "--no-eos", "--meta-key", "i")
        for r in records:
            ids = r["tokens"]["data"]
            for window in get_rolling_token_windows(ids, prefix[0], self.max_length or len(ids), 1):
                pairs.append(make_disjoint_window(window))
                whose.append(r["meta"]["i"])
        for i, (logp, _) in zip(whose, self.score(head, pairs) if pairs else []):
            sums[i] += logp
        return self.remember("loglikelihood_rolling", requests, sums)

    def generate_until(self, requests, disable_tqdm=False):
        alike, texts = {}, [None] * len(requests)
        for i, r in enumerate(requests):
            alike.setdefault(json.dumps(r.args[1], sort_keys=True), []).append(i)
        for how, asked in alike.items():
            how = json.loads(how)
            until = how.get("until") or []
            until = [s for s in ([until] if isinstance(until, str) else until) if s]
            if any("\0" in s for s in until):
                raise Refused(f"until={until}: a text that is written has no NUL, so none can end it")
            if any("\ud800" <= c <= "\udfff" for s in until for c in s):
                raise Refused(f"until={until}: half a character is no text")
            how = options_of(how)
            new = int(next((how[k] for k in NEW if k in how), self.max_gen_toks))
            if new < 0 or (self.max_length is not None and new >= self.max_length):
                raise Refused(f"max_gen_toks={new} tokens are to be written, which must be 0 or more" +
                                 (f" and fewer than max_length={self.max_length}, so that the model can "
                                  "read a prompt" if self.max_length is not None else ""))
            if new == 0:
                for i in asked:
                    texts[i] = ""
                continue
            drawn = how.get("do_sample", how.get("temperature", 0) > 0)
            options = [f"--stop={s}" for s in until[:16]] + ["--max-new", str(new)]
            options += ["--temperature", str(how.get("temperature", 1.0))] if drawn else []
            if drawn and how.get("top_k", 0) > 0:
                options.append(f"--top-k={int(how['top_k'])}")
            if drawn and "top_p" in how:
                options.append(f"--top-p={how['top_p']}")
            cut = [] if self.max_length is None else ["--max-prompt", str(self.max_length - new)]
            head, prompts = self.encode(({"prompt": requests[i].args[0], "i": i} for i in asked),
                                        "--prompt-key", "prompt", "--meta-key", "i", *cut)
            ids = {r["meta"]["i"]: r["tokens"]["data"] for r in prompts}
            if len(ids) < len(asked):  # rf-tokenize writes no record for a text without tokens
                ids = dict.fromkeys(asked, self.prefix()) | ids
            _, records = self.pipe(
                stream(head, [{"tokens": array(ids[i], len(ids[i]))} for i in asked]), ["rf-cat", "--json"],
                ["rf-generate", *self.run_model, "--tokenizer", self.tokenizer, *options])
            for i, r in zip(asked, records, strict=True):
                texts[i] = r["generation"]["text"][0]
                for s in until:
                    texts[i] = texts[i].split(s)[0]
        return self.remember("generate_until", requests, texts)

    def remember(self, kind, requests, results):
        for request, result in zip(requests, results, strict=True):
            self.cache_hook.add_partial(kind, request.args, result)
        return results


NEW = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
NUMBERS = (*NEW, "temperature", "top_k", "top_p")
# options of other programs, with the values that change nothing
NEUTRAL = {"num_beams": 1, "num_return_sequences": 1, "repetition_penalty": 1, "length_penalty": 1,
           "min_p": 0, "typical_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
           "no_repeat_ngram_size": 0, "min_new_tokens": 0, "min_length": 0}


def options_of(how):
    """Returns a request's options, numbers as numbers.  One that would change the text and that rf-generate
    does not have is refused."""
    options = {}
    for key, value in how.items():
        if value is None or key in ("until", "use_cache", "pad_token_id", "eos_token_id", "early_stopping"):
            continue
        if key in NUMBERS:
            try:
                options[key] = float(value) if key in ("temperature", "top_p") else int(value)
            except (TypeError, ValueError, OverflowError):
                raise Refused(f"{key}={value!r} is not a number") from None
            if options[key] != options[key]:
                raise Refused(f"{key}={value!r} is not a number")
        elif key == "do_sample":
            options[key] = bool(value)
        elif key not in NEUTRAL or value != NEUTRAL[key]:
            raise Refused(f"{key}={value!r}: rf-generate cannot do that")
    return options


def array(numbers, *shape):
    return {"dtype": "<i4", "shape": list(shape), "data": list(numbers)}


def stream(head, records):
    """Returns the lines that rf-cat --json makes a stream of: the head, the records and the end."""
    return [head, *({"seq": i + 1, "type": "seq", "body": {"id": i, **r}} for i, r in enumerate(records)),
            {"seq": len(records) + 1, "type": "end", "body": {"count": len(records), "xxh64": 0}}]


def main():
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except Refused as error:
        raise program.Failure(program.USAGE, error) from None
    except SystemExit as end:
        sys.exit(program.USAGE if end.code == 2 else end.code)  # argparse exits with 2


if __name__ == "__main__":
    program.run(NAME, main)
