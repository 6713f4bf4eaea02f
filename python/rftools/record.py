"""record.py -- the keys of a record and of a head, and the rules that their values keep: rf-stream(5)."""
import math
import re

import numpy

from .errors import StreamError, quote
from .message import owned, whole

STOP_WORDS, PART_KEYS = ("eos", "length", "stop"), ("cosine", "binary", "edit")


def table(text):
    """Returns key, whether it is needed, type, shape and rule of each field: "key! type shape rule; ..."."""
    rows = [(field.split() + ["", ""])[:4] for field in text.split(";")]
    return [(key.rstrip("!"), key.endswith("!"), *rest) for key, *rest in rows]


# A shape has a letter for each dimension.  The first array that is read sets the size of a letter, and later
# arrays must agree; t is T - 1.  A rule like 1..k is a range that may end with the size of a letter.
FIELDS = {
    "record": table("id! id; tokens! <i4 T ids; response <i4 r ids; prompt_len length; answers texts a;"
                    "source text; meta map; entropy <f4 T; nll <f4 t; correct <f4 t; hidden <f4 Td;"
                    "logits <f4 TN; positions <i4 c 1..t; rollout group; reward group; advantage <f4 cn;"
                    "advantage_per_token <f4 cnk; generation group; choice group"),
    "rollout": table("temperature! real - above; tokens! <i4 cnk ids; length <i4 cn 1..k; logp <f4 cnk;"
                     "logp_ref <f4 cnk; kept <f4 cnk share; h_pred <f4 cnkD; h_gt <f4 ckD"),
    "reward": table("kind! text; total <f4 cm; cosine <f4 cm; binary <f4 cm; edit <f4 cm; parts parts cm;"
                    "per_token <f4 cmk"),
    "generation": table("temperature! real - of; tokens! <i4 gl ids; length! <i4 g 1..l; stop! texts g stop;"
                        "text texts g; score <f4 g; metric text"),
    "choice": table("tokens! <i4 qw ids; length! <i4 q 1..w; from <i4 q context; logp <f4 q;"
                    "greedy <i4 q 0..1"),
}


def sort_map(body, name, keys):
    """Returns the known keys of a map in their order, then the others.  Raises StreamError."""
    if not isinstance(body, dict):
        raise StreamError(f"{name} is not a map")
    for key in body:
        if body[key] is None:
            raise StreamError(f"{name}: '{quote(key)}' is nil: leave out a key whose value is not known")
    return [key for key in keys if key in body] + [key for key in body if key not in keys]


def shape_text(shape):
    return "(" + ", ".join(map(str, shape)) + ")"


class Check:
    """The check of one record.

    sizes   the size of each letter
    rules   label, rule and value of the fields, which are checked when all sizes are known
    """

    def __init__(self, vocab, written):
        self.vocab, self.written, self.sizes, self.rules = vocab, written, {}, []

    def group(self, name, body):
        """Returns a map with its fields in order and as numpy arrays."""
        prefix, found = "" if name == "record" else name + ".", {}
        order = sort_map(body, name, [field[0] for field in FIELDS[name]])
        for key, needed, kind, shape, rule in FIELDS[name]:
            if key in body:
                found[key] = self.value(prefix + key, kind, shape, rule, body[key])
            elif needed:
                raise StreamError(f"{name} has no '{key}'")
        if name == "reward" and sum(key in found for key in PART_KEYS) + len(found.get("parts", ())) > 32:
            raise StreamError("reward has more than 32 parts")
        return {key: found[key] if key in found else owned(body[key]) for key in order}

    def value(self, label, kind, shape, rule, value):
        value = value.item() if isinstance(value, numpy.generic) else value
        if kind == "group":
            return self.group(label, value)
        if kind in ("<i4", "<f4"):
            value = self.array(label, kind, shape, value)
        elif kind in ("id", "length"):
            if not whole(value, 0, 2**64 - 1 if kind == "id" else 2**31 - 1):
                raise StreamError(f"{label} is not a whole number of 0 or more")
        elif kind == "real":
            if not isinstance(value, float) and not whole(value):
                raise StreamError(f"{label} is not a number")
            value = float(value)
        elif kind == "text":
            self.text(label, value)
        elif kind == "texts":
            if not isinstance(value, (list, tuple)):
                raise StreamError(f"{label} is not a list")
            want = self.sizes.setdefault(shape, len(value))
            if len(value) != want:
                raise StreamError(f"{label} has {len(value)} elements where {want} were expected")
            for text in value:
                self.text(f"an element of {label}", text)
        elif not isinstance(value, dict):
            raise StreamError(f"{label} is not a map")
        else:
            value = self.parts(shape, value) if kind == "parts" else {k: owned(x) for k, x in value.items()}
        self.rules.append((label, kind if kind == "<f4" and not rule else rule, value))
        return value

    def text(self, label, value):
        if not isinstance(value, str):
            raise StreamError(f"{label} is not a string")
        if "\0" in value:
            raise StreamError(f"{label} contains a NUL")

    def parts(self, shape, value):
        if not value:
            raise StreamError("reward.parts is empty")
        for name in value:
            if not re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,31}", name):
                raise StreamError(f"reward.parts: '{quote(name)}' is not a name of up to 32 letters, digits "
                                  "and '_' that begins with a letter")
            if name in PART_KEYS:
                raise StreamError(f"reward.parts has '{name}', which is a key of reward itself")
        return {name: self.value(f"reward.parts.{name}", "<f4", shape, "", x) for name, x in value.items()}

    def array(self, label, dtype, letters, value):
        """Returns the numpy array that a map {dtype, shape, data} stands for.  A writer may also give an
        array or lists of numbers, which become this type."""
        ready = self.written and not isinstance(value, dict)
        value, shape, data = self.converted(label, dtype, value) if ready else \
            self.opened(label, dtype, len(letters), value)
        if len(shape) != len(letters):
            raise StreamError(f"{label} does not have {len(letters)} dimension{'s' * (len(letters) > 1)}")
        if 0 in [n for letter, n in zip(letters, shape) if letter != "t"]:
            raise StreamError(f"{label} is empty")
        want = [self.sizes["T"] - 1 if letter == "t" else self.sizes.setdefault(letter, n)
                for letter, n in zip(letters, shape)]
        if shape != want:
            raise StreamError(f"{label} has the shape {shape_text(shape)} where {shape_text(want)} was "
                              "expected")
        if not ready and 4 * math.prod(shape) != len(data):
            raise StreamError(f"{label} has {len(data)} bytes of data, which does not match its shape "
                              f"{shape_text(shape)}")
        return value if ready else numpy.frombuffer(data, dtype).reshape(shape).copy()

    @staticmethod
    def opened(label, dtype, ndim, value):
        """Returns the map {dtype, shape, data}, its shape and its data."""
        if not isinstance(value, dict) or len(value) != 3:
            raise StreamError(f"{label} is not an array {{dtype, shape, data}}")
        if list(value) != ["dtype", "shape", "data"]:
            raise StreamError(f"{label} is not an array {{dtype, shape, data}}, in this order")
        if value["dtype"] != dtype:
            raise StreamError(f"{label} does not have the dtype {dtype}")
        shape, data = value["shape"] if isinstance(value["shape"], list) else [], value["data"]
        if len(shape) == ndim and not all(whole(n, 0, 2**31 - 1) for n in shape):
            raise StreamError(f"{label} has a size that is not a whole number below 2^31")
        if len(shape) == ndim and not isinstance(data, (memoryview, bytes)):
            raise StreamError(f"{label} has data that are not binary")
        return value, shape, data

    @staticmethod
    def converted(label, dtype, value):
        """Returns a writer's numbers as an array of this type, its shape, and None."""
        try:
            found = numpy.asarray(value)
        except ValueError:
            raise StreamError(f"{label} is not an array: its rows have different lengths") from None
        if found.dtype.kind not in ("iu" if dtype == "<i4" else "biuf"):
            raise StreamError(f"{label} does not have the dtype {dtype}, but {found.dtype.str}")
        if dtype == "<i4" and found.size and not -2**31 <= found.min() <= found.max() < 2**31:
            raise StreamError(f"{label} has a number that is not below 2^31")
        if found.size >= 2**30:
            raise StreamError(f"{label} has 4 GiB or more, which no message can hold: use shorter sequences")
        with numpy.errstate(over="ignore"):  # infinity is refused later
            return found.astype(dtype, copy=False), list(found.shape), None

    def keep(self, label, rule, value, record):
        """Checks a value by the rule of its field."""
        if rule in ("<f4", "share"):
            for i in numpy.flatnonzero(~numpy.isfinite(value))[:1]:
                what = "NaN" if numpy.isnan(value.flat[i]) else "infinite"
                raise StreamError(f"{label} is {what} (number {i})")
            for i in numpy.flatnonzero((value < 0) | (value > 1))[:1 if rule == "share" else 0]:
                raise StreamError(f"{label}: number {i} is {value.flat[i]:.9g}, outside 0 to 1")
        elif rule == "stop":
            for i, word in enumerate(value):
                if word not in STOP_WORDS:
                    raise StreamError(f"{label}: number {i} is not one of {'|'.join(STOP_WORDS)}")
        elif rule in ("above", "of"):
            if not math.isfinite(value) or value < 0 or value == 0 and rule == "above":
                raise StreamError(f"{label} is {value:g}, not a number {rule} 0{' or more' * (rule == 'of')}")
        elif rule:
            least, most = 0, (self.vocab or 2**31) - 1
            if rule == "context":
                most = record["choice"]["length"] - 1
            elif rule != "ids":
                least, most = int(rule[0]), int({**self.sizes, "t": self.sizes["T"] - 1, "1": 1}[rule[-1]])
            for i in numpy.flatnonzero((value < least) | (value > most))[:1]:
                raise StreamError(f"{label}: number {i} is {value.flat[i]}, outside {least} to "
                                  f"{most if isinstance(most, int) else most[i]}")


def check_record(body, vocab=0, written=False):
    """Returns a record with its keys in the order of rf-stream(5) and its arrays as numpy arrays.

    body: a dict, as decode() returns it, or as a writer gives it.  vocab: 0: not known.  Raises StreamError.
    """
    check = Check(vocab, written)
    record = check.group("record", body)
    sizes, rollout, reward = check.sizes, record.get("rollout", {}), record.get("reward", {})
    broken = {
        "the record has a rollout but no positions": rollout and "positions" not in record,
        "the record has a reward but no rollout": reward and not rollout,
        "the record has an advantage but no rollout":
            not rollout and ("advantage" in record or "advantage_per_token" in record),
        "the record has advantage and advantage_per_token, but only one of them is allowed":
            "advantage" in record and "advantage_per_token" in record,
        "rollout has h_pred but no h_gt": "h_pred" in rollout and "h_gt" not in rollout,
        "rollout has h_gt but no h_pred": "h_gt" in rollout and "h_pred" not in rollout,
        "reward has no 'total'": reward and "total" not in reward,
        f"reward has {sizes.get('m')} numbers per position, but rollout has {sizes.get('n')}":
            reward and sizes.get("m") != sizes.get("n"),
        "the record has a response and prompt_len, but only one of them is allowed":
            "response" in record and "prompt_len" in record,
        f"prompt_len is {record.get('prompt_len')}, but the sequence has only {sizes['T']} tokens":
            record.get("prompt_len", 0) > sizes["T"],
    }
    for reason, is_so in broken.items():
        if is_so:
            raise StreamError(reason)
    for rule in check.rules:
        check.keep(*rule, record)
    return record


# ---- head ------------------------------------------------------------------------------------

HEAD = {"head": ("format", "vocab", "seed", "tokenizer", "model", "shard", "history"),
        "tokenizer": ("kind", "hash"), "model": ("arch", "weights", "step"),
        "shard": ("rank", "ranks", "mini_batch", "records", "steps")}
RANGES = {"format": (1, 2**63 - 1), "vocab": (1, 2**31 - 1), "seed": (0, 2**64 - 1),
          "model.step": (0, 2**63 - 1),
          **{f"shard.{key}": (int(key == "ranks"), 2**31 - 1) for key in HEAD["shard"]}}


def check_map(name, body):
    """Returns a map of the head with its keys in order.  Raises StreamError."""
    order, prefix = sort_map(body, name, HEAD[name]), "" if name == "head" else name + "."
    if name == "shard" and len(order) > len(HEAD[name]):
        raise StreamError("the head's shard has an unknown key")
    for key in HEAD[name]:
        label, value = prefix + key, body.get(key)
        if value is None and (label == "format" or name == "shard"):
            raise StreamError(f"the head has no {label}" if prefix else "the head has no 'format'")
        if value is None:
            continue
        if label in RANGES and not whole(value, *RANGES[label]):
            raise StreamError(f"{label} is not a whole number from {RANGES[label][0]} to {RANGES[label][1]}")
        if label == "format" and value != 1:
            raise StreamError(f"the stream has format {value}, but this version of rf-tools reads format 1 "
                              "(use a newer version)")
        if key == "kind" and not (isinstance(value, str) and 1 <= len(value.encode()) <= 31 and
                                  "\0" not in value):
            raise StreamError(f"{label} is not a string of 1 to 31 bytes")
        if key in ("hash", "arch", "weights") and not (isinstance(value, str) and
                                                       re.fullmatch("[0-9a-f]{16}", value)):
            raise StreamError(f"{label} is not a hash of 16 hex digits")
        if key in HEAD:
            check_map(key, value)
        if key == "history" and not isinstance(value, list):
            raise StreamError("history is not a list")
        for i, stage in enumerate(value if key == "history" else ()):
            if not isinstance(stage, dict):
                raise StreamError(f"stage {i} of the history is not a map")
    if name == "shard" and (body["rank"] >= body["ranks"] or bool(body["records"]) != bool(body["steps"]) or
                            body["steps"] and body["mini_batch"]):
        raise StreamError("the head's shard contradicts itself")
    return {key: check_map(key, body[key]) if key in HEAD else owned(body[key]) for key in order}


def check_head(body):
    """Returns a head with its keys in the order of rf-stream(5).  Raises StreamError."""
    return check_map("head", body)
