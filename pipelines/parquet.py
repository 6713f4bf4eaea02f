#!/usr/bin/env python3
"""parquet.py -- the rows of parquet files as JSON lines, which rf-tokenize reads.

    parquet.py [-o FILE] [--columns NAME,NAME...] INPUT.parquet...

Published data of questions comes as parquet: a row per question, with columns such as prompt (a string),
answers (a list of strings), task and max_gen_tokens.  Each row becomes one line, an object with the columns
as keys, in the order of the files and of their rows.  The lines go to standard output or, whole or not at
all, to FILE, compressed if its name ends in .zst.

--columns takes only these, in this order; otherwise all columns are taken.  A value may be a string, a
number, a boolean, null, a list of such, or a struct.  Bytes, dates and numbers that are not finite have no
form in JSON and are errors, which name file, row and column.

It needs pyarrow (pip install pyarrow), and the program zstd for .zst.

Exit status: 0 done, 64 usage, 65 bad data, 66 no input, 69 pyarrow or zstd is missing, 74 reading or writing
failed, 130 and 143 interrupted, 141 the reader of the output has left.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

USAGE, DATA, NOINPUT, UNAVAILABLE, IO, PIPE = 64, 65, 66, 69, 74, 141
ROWS = 64  # that are in memory at a time: a prompt may have a megabyte


class Failure(Exception):
    def __init__(self, status, text):
        super().__init__(" ".join(str(text).split()))
        self.status = status


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(USAGE, f"{message} (try --help)")


def interrupted(number, _):
    raise Failure(128 + number, "interrupted")


def columns_of(file, path, wanted):
    """The names that are taken; a name that stands twice in the file would be lost in an object."""
    names = file.schema_arrow.names
    for name in wanted or names:
        if names.count(name) != 1:
            raise Failure(DATA, f"{path}: there is {'no' if name not in names else 'more than one'} column "
                                f"'{name}' (there are: {', '.join(names)})")
    return wanted or names


def line_of(row, path, number):
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except (TypeError, ValueError):  # a lone surrogate is a ValueError, too
        pass
    for name, value in row.items():
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise Failure(DATA, f"{path}: row {number}: column '{name}': {error}") from None
    raise Failure(DATA, f"{path}: row {number}: not valid in JSON")


def convert(path, wanted, out):
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        open(path, "rb").close()  # pyarrow does not tell all kinds of failures apart
    except OSError as error:
        raise Failure(NOINPUT, f"{path}: {error.strerror}") from None
    try:
        file = parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise Failure(DATA, f"{path}: {error}") from None
    with file:
        names = columns_of(file, path, wanted)
        number, batches = 0, file.iter_batches(batch_size=ROWS, columns=names)
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                columns = [batch.column(name).to_pylist() for name in names]
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                raise Failure(DATA, f"{path}: {error}") from None
            for values in zip(*columns):
                number += 1
                out.write(line_of(dict(zip(names, values)), path, number))


def to_file(path, write):
    """write(file) into a new file beside path, which takes its name when it is whole and on disk."""
    folder = os.path.dirname(path) or "."
    try:
        number, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.tmp-", dir=folder)
    except OSError as error:  # it names the temporary file
        raise Failure(IO, f"{path}: {error.strerror}") from None
    try:
        with open(number, "wb") as file:
            if path.endswith(".zst"):
                compress(file, write)
            else:
                write(file)
            file.flush()
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(folder, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def compress(file, write):
    if not shutil.which("zstd"):
        raise Failure(UNAVAILABLE, "the program zstd is missing: install it, or name a file without .zst")
    zstd = subprocess.Popen(["zstd", "-qq", "-c"], stdin=subprocess.PIPE, stdout=file)
    try:
        write(zstd.stdin)
        zstd.stdin.close()
    except BrokenPipeError:
        pass  # its status says that it failed
    finally:
        done = zstd.stdin.closed
        if not done:
            zstd.kill()
        status = zstd.wait()
    if not done or status:
        raise Failure(IO, f"writing failed: zstd ended with status {status}")


def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    parser = Arguments(prog="parquet.py", description=__doc__, allow_abbrev=False,
                       formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file, not to standard output")
    parser.add_argument("--columns", type=lambda names: names.split(","), metavar="NAME,NAME...",
                        help="take only these columns")
    parser.add_argument("inputs", nargs="+", metavar="INPUT.parquet")
    given = parser.parse_args()
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise Failure(UNAVAILABLE, "pyarrow is missing: pip install pyarrow") from None

    def write(out):
        for path in given.inputs:
            convert(path, given.columns, out)

    if not given.output:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif any(os.path.exists(path) and os.path.exists(given.output) and
             os.path.samefile(path, given.output) for path in given.inputs):
        raise Failure(USAGE, f"{given.output} is an input, so it cannot be the output")
    else:
        to_file(given.output, write)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"parquet.py: {failure}", file=sys.stderr)
        sys.exit(failure.status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(PIPE)
    except OSError as error:
        print(f"parquet.py: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        sys.exit(IO)
