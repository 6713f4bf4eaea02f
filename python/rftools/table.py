"""table.py -- a stream as rows with named columns: the tables of rf-dump(1).

The types of values are id and whole (int), single (a float32 of the stream), real (float) and text (str).  A
value that a row lacks is None: NaN in floats of pandas, null in polars and parquet.
"""
import importlib.util
import itertools
import re

import numpy

from .errors import shown
from .stream import MAX_RECORD, Stream, read
from .writer import Output

CONTEXT, AHEAD = 40, 8  # tokens of a prefix; tokens after a position without rollouts
KINDS = {"record": "R", "position": "P", "rollout": "O", "token": "K", "sample": "G", "choice": "H"}
PARTS = ("cosine", "binary", "edit")
# columns of rf-dump's other tables: a part of the reward with such a name is the column reward.NAME
OTHERS = set("file name dtype shape count step commits weights bytes rank host process exchanges doing age "
             "min max mean std norm nonfinite".split())
# the tokens of the tokenizer `bytes`
BYTES = [b"<pad>", b"<eos>", b"<unk>", *(bytes([i]) for i in range(256)),
         *(b"<extra_id_%d>" % i for i in range(125))]


def bytes_text(ids, cut):
    """Returns the text of tokens of the tokenizer `bytes`.  cut: the tokens may begin inside a character."""
    if len(ids) > 1 and max(ids) >= len(BYTES):
        return "".join(bytes_text([i], False) for i in ids)
    data = b"".join(BYTES[i] if i < len(BYTES) else b"<%d>" % i for i in ids)
    for _ in range(3 * cut):
        data = data[1:] if data and data[0] & 0xC0 == 0x80 else data
    return data.decode("utf-8", "replace")


def escaped(text):
    """Returns a text as rf-dump shows it: a newline is \\n, and a backslash \\\\.  None stays None."""
    return None if text is None else "".join("\\\\" if c == "\\" else shown(c) for c in text)


def at(array, *index):
    """Returns an element of an array; None: there is no array, or no such element."""
    if array is None or None in index or any(i >= n for i, n in zip(index, array.shape)):
        return None
    return array[index].item()


def figure(what, array):
    """Returns the mean, min or max of an array; None: there is no array, or it is empty."""
    if array is None or not array.size:
        return None
    return (array.mean(dtype=float) if what == "mean" else getattr(array, what)()).item()


class Row:
    """A row: a record, and the numbers of position i, rollout r, token t, sample g and choice h (None: none).

    T, c, n and k are the sizes of rf-stream(5).
    """

    def __init__(self, number, record, decode):
        self.number, self.rec, self.decode = number, record, decode
        self.rollout, self.reward = record.get("rollout", {}), record.get("reward", {})
        self.generation, self.choice = record.get("generation", {}), record.get("choice", {})
        self.positions = record["positions"].tolist() if "positions" in record else []
        self.T, self.c, self.chosen = len(record["tokens"]), len(self.positions), set(self.positions)
        self.n, self.k = self.rollout["tokens"].shape[1:] if self.rollout else (None, None)
        self.figures = {}

    def places(self, letter):
        """Yields i, r, t, g, h of each row of a kind; "": the rollouts, or the positions, or the record."""
        letter = letter or ("O" if self.n else "P" if self.c else "R")
        count = {"R": 1, "K": self.T, "P": self.c, "O": self.c * (self.n or 0),
                 "G": len(self.generation.get("length", ())), "H": len(self.choice.get("length", ()))}
        for n in range(count[letter]):
            i = n if letter == "P" else n // self.n if letter == "O" else None
            yield (i, n % self.n if letter == "O" else None,
                   n if letter == "K" else None if i is None else self.positions[i] - 1,
                   n if letter == "G" else None, n if letter == "H" else None)

    def whole(self, what, key):
        """Returns a figure of an array of the record, which is computed once."""
        if (what, key) not in self.figures:
            self.figures[what, key] = figure(what, self.rec.get(key))
        return self.figures[what, key]

    def rewards(self, what):
        total = self.reward.get("total")
        return figure(what, total if total is None or self.i is None else total[self.i])

    def length(self):
        if self.r is None:
            return at((self.choice if self.g is None else self.generation).get("length"),
                      self.h if self.g is None else self.g)
        return at(self.rollout.get("length"), self.i, self.r) or self.k

    def mean(self, array):
        """Returns the mean over the tokens of the rollout."""
        if self.r is None or array is None:
            return None
        return figure("mean", array[self.i, self.r, :self.length()])

    def probability(self):
        nll = self.rec.get("nll")
        return None if nll is None else figure("mean", numpy.exp(-nll.astype(float)))

    def tokens(self, array, begin, end, cut=False):
        return escaped(self.decode(array[begin:end].tolist(), cut))

    def prefix(self):
        begin = max(0, self.t + 1 - CONTEXT)
        return self.tokens(self.rec["tokens"], begin, self.t + 1, begin > 0)

    def text(self):
        if self.h is None:
            return self.tokens(self.rec["tokens"], self.t, self.t + 1)
        begin = at(self.choice.get("from"), self.h) or 0
        return self.tokens(self.choice["tokens"][self.h], begin, self.length())

    def prompt(self):
        n = self.rec.get("prompt_len")
        return None if n is None and self.g is None else self.tokens(self.rec["tokens"], 0, n)

    def written(self):
        if "text" in self.generation:
            return escaped(self.generation["text"][self.g])
        return self.tokens(self.generation["tokens"][self.g], 0, self.length())


# column, rows that have it, rows whose tables show it, type, value
COLUMNS = [
    ("record", "RPOKGH", "", "whole", lambda w: w.number),
    ("id", "RPOKGH", "RPOKGH", "id", lambda w: w.rec["id"]),
    ("T", "RPOKGH", "RH", "whole", lambda w: w.T),
    ("prompt_len", "RPOKGH", "RG", "whole", lambda w: w.rec.get("prompt_len")),
    ("position", "PO", "PO", "whole", lambda w: w.i),
    ("s", "PO", "PO", "whole", lambda w: None if w.i is None else w.t + 1),
    ("t", "POK", "K", "whole", lambda w: w.t),
    ("token", "POK", "K", "whole", lambda w: at(w.rec["tokens"], w.t)),
    ("entropy", "POK", "POK", "single", lambda w: at(w.rec.get("entropy"), w.t)),
    ("nll", "POK", "PK", "single", lambda w: at(w.rec.get("nll"), w.t)),
    ("correct", "POK", "K", "single", lambda w: at(w.rec.get("correct"), w.t)),
    ("chosen", "K", "K", "whole", lambda w: int(w.t + 1 in w.chosen) if w.c else None),
    ("positions", "RPOK", "R", "whole", lambda w: w.c),
    ("n", "RPO", "RP", "whole", lambda w: w.n),
    ("rollout", "O", "O", "whole", lambda w: w.r),
    ("k", "RPO", "RPO", "whole", lambda w: w.k),
    ("temperature", "RPOG", "RG", "real",
     lambda w: (w.rollout if w.g is None else w.generation).get("temperature")),
    ("reward", "O", "O", "single", lambda w: at(w.reward.get("total"), w.i, w.r)),
    ("advantage", "O", "O", "real", lambda w: w.mean(w.rec["advantage_per_token"])
     if "advantage_per_token" in w.rec else at(w.rec.get("advantage"), w.i, w.r)),
    ("choice", "H", "H", "whole", lambda w: w.h),
    ("logp", "OH", "OH", "real", lambda w: w.mean(w.rollout.get("logp")) if w.h is None
     else at(w.choice.get("logp"), w.h)),
    ("logp_ref", "O", "", "real", lambda w: w.mean(w.rollout.get("logp_ref"))),
    ("kept", "O", "", "real", lambda w: w.mean(w.rollout.get("kept"))),
    ("greedy", "H", "H", "whole", lambda w: at(w.choice.get("greedy"), w.h)),
    ("reward_mean", "RPO", "RP", "real", lambda w: w.rewards("mean")),
    ("reward_min", "RPO", "RP", "real", lambda w: w.rewards("min")),
    ("reward_max", "RPO", "RP", "real", lambda w: w.rewards("max")),
    ("entropy_mean", "RPOK", "R", "real", lambda w: w.whole("mean", "entropy")),
    ("entropy_max", "RPOK", "R", "real", lambda w: w.whole("max", "entropy")),
    ("nll_mean", "RPOK", "R", "real", lambda w: w.whole("mean", "nll")),
    ("accuracy", "RPOK", "R", "real", lambda w: w.whole("mean", "correct")),
    ("ntp_accuracy", "R", "", "real", Row.probability),
    ("source", "RPOKGH", "RO", "text", lambda w: escaped(w.rec.get("source"))),
    ("prefix", "PO", "PO", "text", lambda w: None if w.i is None else w.prefix()),
    ("generated", "O", "O", "text", lambda w: None if w.r is None
     else w.tokens(w.rollout["tokens"][w.i, w.r], 0, w.length())),
    ("truth", "PO", "PO", "text", lambda w: None if w.i is None
     else w.tokens(w.rec["tokens"], w.t + 1, w.t + 1 + (w.k or AHEAD))),
    ("text", "KH", "K", "text", Row.text),
    ("sample", "G", "G", "whole", lambda w: w.g),
    ("length", "OGH", "GH", "whole", Row.length),
    ("from", "H", "H", "whole", lambda w: at(w.choice.get("from"), w.h) or 0),
    ("stop", "G", "G", "text", lambda w: w.generation["stop"][w.g]),
    ("score", "G", "G", "real", lambda w: at(w.generation.get("score"), w.g)),
    ("prompt", "RG", "", "text", Row.prompt),
    ("answer", "RG", "G", "text", lambda w: escaped((w.rec.get("answers") or [None])[0])),
    ("written", "G", "G", "text", Row.written),
]
NAMES = {column[0]: column for column in COLUMNS}


def part(name):
    """Returns the column of a part of the reward."""
    def value(row):
        return at((row.reward if name in PARTS else row.reward.get("parts", {})).get(name), row.i, row.r)

    return "reward." * (name in NAMES or name in OTHERS) + name, "O", "O", "single", value


class Table:
    """The rows of a stream: an iterator over lists of values, in the order of `columns`.  `columns` is final
    when the first row was read or the stream has ended.  Raises ValueError: rows or a column is unknown."""

    def __init__(self, source, rows, columns, decode, max_record):
        if rows != "auto" and rows not in KINDS:
            raise ValueError(f"rows: '{rows}' is not one of auto, {', '.join(KINDS)} (rf-dump shows "
                             "checkpoints)")
        self.stream = source if isinstance(source, Stream) else read(source, max_record)
        self.letter, self.asked = KINDS.get(rows, ""), columns
        bytewise = self.stream.head.get("tokenizer", {}).get("kind") == "bytes"
        self.decode = (lambda ids, cut: decode(ids)) if decode else bytes_text if bytewise else \
            lambda ids, cut: " ".join(map(str, ids))
        self.mask, self.columns = self.letter or "O", []
        for column in map(self.find, columns) if columns else COLUMNS:
            if columns or self.mask in column[2]:
                self.columns += [column, *(part(p) for p in PARTS if column[0] == "reward" and not columns)]

    def find(self, name):
        """Returns the column with this name, which may be a part of the reward."""
        bare = re.fullmatch(r"(?:reward\.)?([A-Za-z]\w{0,31})", name, re.ASCII)
        if self.mask in NAMES.get(name, ("", ""))[1]:
            return NAMES[name]
        if self.mask != "O" or name in NAMES or not bare:
            self.refuse(name, ())
        return part(bare[1])

    def expect(self, parts):
        """Refuses a name without "reward." that is no column and not one of these parts."""
        for name in self.asked or ():
            if name not in (*NAMES, *PARTS, *parts) and not name.startswith("reward."):
                self.refuse(name, parts)

    def refuse(self, name, parts):
        known = [column[0] for column in COLUMNS if self.mask in column[1]] + [part(p)[0] for p in parts]
        raise ValueError(f"columns: unknown column '{name}'; the columns are {', '.join(known)}")

    def __iter__(self):
        first, rewarded = True, False
        for record in self.stream:
            row, more = Row(self.stream.count, record, self.decode), record.get("reward", {}).get("parts", ())
            for row.i, row.r, row.t, row.g, row.h in row.places(self.letter):
                if first and not self.asked and self.mask == "O":  # the parts of the first record with rows
                    after = [column[0] for column in self.columns].index(PARTS[-1]) + 1
                    self.columns[after:after] = map(part, more)
                if row.reward and not rewarded:
                    self.expect(more)
                first, rewarded = False, rewarded or bool(row.reward)
                yield [column[4](row) for column in self.columns]
        if not rewarded:
            self.expect(())


def rows(source, rows="auto", columns=None, decode=None, max_record=MAX_RECORD):
    """Yields the rows of a table as dicts, with one record in memory.  The arguments are those of frame()."""
    table = Table(source, rows, columns, decode, max_record)
    for values in table:
        yield {column[0]: value for column, value in zip(table.columns, values)}


def frame(source, rows="auto", columns=None, engine=None, decode=None, max_record=MAX_RECORD):
    """Returns the table that `rf-dump --tsv` prints, as a DataFrame.

    source   a path, "-", a binary file or a Stream
    rows     auto, record, position, rollout, token, sample or choice: rf-dump(1), --rows
    columns  names of columns, in this order; default: those that rf-dump shows
    engine   "pandas" or "polars"; default: the one that is installed, pandas if both are
    decode   a function from a list of token ids to a text, such as `decode` of a tokenizer of transformers;
             default: text for the tokenizer `bytes`, and numbers for other tokenizers

    Texts are escaped as rf-dump shows them: a newline is \\n.  Reals are not rounded to 7 digits.  Raises
    StreamError, OSError; ValueError: rows, a column or the engine is unknown; ImportError: no engine.
    """
    if engine not in (None, "pandas", "polars"):
        raise ValueError(f"engine: '{engine}' is neither pandas nor polars")
    for name in [engine] if engine else ["pandas", "polars"]:
        if importlib.util.find_spec(name):
            break
    else:
        raise ImportError(f"frame() needs {engine or 'pandas or polars'}: install it")
    library = importlib.import_module(name)
    table = Table(source, rows, columns, decode, max_record)
    data = list(zip(*table)) or [()] * len(table.columns)
    made = {}
    for (column, _, _, kind, _), values in zip(table.columns, data):
        whole = {"id": "UInt64", "whole": "Int64"}.get(kind)
        if name == "polars":
            dtype = whole or {"single": "Float32", "real": "Float64", "text": "String"}[kind]
            made[column] = library.Series(column, list(values), dtype=getattr(library, dtype))
        else:
            dtype = {"single": "float32", "real": "float64", "text": None}.get(kind, whole)
            dtype = whole.lower() if whole and None not in values else dtype
            made[column] = library.Series(list(values), dtype=dtype)
    return library.DataFrame(made)


def to_parquet(source, path, rows="auto", columns=None, decode=None, max_record=MAX_RECORD, batch=10000):
    """Writes the table of frame() to a parquet file, in groups of `batch` rows.  Returns the number of rows.

    The file appears whole or not at all.  Needs pyarrow.  Raises the errors of frame().
    """
    import pyarrow
    from pyarrow import parquet

    types = {"id": "uint64", "whole": "int64", "single": "float32", "real": "float64", "text": "string"}
    table = Table(source, rows, columns, decode, max_record)
    values, count = iter(table), 0
    group = list(itertools.islice(values, batch))
    schema = pyarrow.schema([(column[0], types[column[3]]) for column in table.columns])
    with Output(path) as out, open(out.fd, "wb", closefd=False) as file, \
            parquet.ParquetWriter(file, schema) as writer:
        while group:
            arrays = [pyarrow.array(x, field.type) for x, field in zip(zip(*group), schema)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            count += len(group)
            group = list(itertools.islice(values, batch))
    return count
