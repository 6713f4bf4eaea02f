#!/usr/bin/env python3
"""parquet.py -- the rows of parquet files as JSON lines, which rf-tokenize reads.

    parquet.py [-o FILE] [--columns NAME,NAME...] INPUT.parquet...

Published data of questions comes as parquet: a row per question, with columns such as prompt (a string),
answers (a list of strings), task and max_gen_tokens.  Each row becomes one line, an object with the columns
as keys, in the order of the files and of their rows.  The lines go to standard output, or to FILE, compressed
if its name ends in .zst.  A file appears only when it is complete, and a symbolic link is replaced.  A FIFO,
a device or /dev/stdout is written directly.  "-" is standard output.

--columns takes these columns, in this order; otherwise all columns are taken.  A value may be a string, a
number, a boolean, null, a list of these, or a struct.  Bytes, dates and numbers that are not finite have no
form in JSON and are errors, which name file, row and column.

It needs pyarrow (pip install pyarrow), and the program zstd for .zst.

A message shows control characters of names as \\x1b, and so do lines that go to a terminal, as JSON has it.

Exit status: 0 done, 64 usage, 65 bad data, 66 no input, 69 pyarrow or zstd is missing, 70 a fault of this
program, 71 out of memory, 74 reading or writing failed.  A signal, or a reader that closes the
output, ends it as it ends other programs (143, 141).
"""
import argparse
import json
import os
import shutil
import stat
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from program import (DATA, IO, NOINPUT, UNAVAILABLE, USAGE, Failure, Output, handle_signals,  # noqa: E402
                     hold_standard_descriptors, one_line, run, safe_json)

ROWS = 64  # that are in memory at a time: a prompt may have a megabyte


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(USAGE, f"{message} (try --help)")

    def _print_message(self, message, file=None):  # --help, to a standard output that may be closed
        with Output("-") as out:
            out.write(message.encode())


def columns_of(file, path, wanted):
    """The names that are taken; a name that stands twice in the file would be lost in an object."""
    names = file.schema_arrow.names
    for name in wanted or names:
        if names.count(name) != 1:
            raise Failure(DATA, f"{path}: there is {'no' if name not in names else 'more than one'} column "
                                f"'{name}' (there are: {', '.join(names)})")
    return wanted or names


def line_of(row, path, number, terminal):
    try:
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return (safe_json(line) if terminal else line).encode() + b"\n"
    except (TypeError, ValueError):  # a lone surrogate is a ValueError, too
        pass
    for name, value in row.items():
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise Failure(DATA, f"{path}: row {number}: column '{name}': {error}") from None
    raise Failure(DATA, f"{path}: row {number}: not valid in JSON")


def open_regular(path):
    try:
        source = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # a FIFO does not wait
    except IsADirectoryError:
        raise Failure(NOINPUT, f"{path}: is a directory") from None
    except (OSError, ValueError) as error:
        raise Failure(NOINPUT, f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
        raise Failure(NOINPUT, f"{path}: is not a regular file, and parquet is read from its end")
    return source


def convert(path, wanted, out, terminal):
    import pyarrow
    import pyarrow.parquet as parquet

    # pyarrow does not distinguish all kinds of failures, and does not take all names
    source = open_regular(path)
    try:
        file = parquet.ParquetFile(source)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        source.close()
        raise Failure(DATA, f"{path}: {one_line(error)}") from None
    with source, file:
        names = columns_of(file, path, wanted)
        number, batches = 0, file.iter_batches(batch_size=ROWS, columns=names)
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                columns = [batch.column(name).to_pylist() for name in names]
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                raise Failure(DATA, f"{path}: {one_line(error)}") from None
            for values in zip(*columns):
                number += 1
                out.write(line_of(dict(zip(names, values)), path, number, terminal))


def compress(out, write):
    """Writes through zstd into the output's file."""
    if not shutil.which("zstd"):
        raise Failure(UNAVAILABLE, "the program zstd is missing: install it, or name a file without .zst")
    zstd = subprocess.Popen(["zstd", "-qq", "-c"], stdin=subprocess.PIPE, stdout=out.fd,
                            stderr=subprocess.DEVNULL)
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
    if status == -13:
        raise BrokenPipeError
    if not done or status:
        raise Failure(IO, f"{out.name}: write: zstd ended with status {status}")


def main():
    handle_signals()
    parser = Arguments(prog="parquet.py", description=__doc__, allow_abbrev=False,
                       formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FILE", default="-",
                        help="write to this file, not to standard output")
    parser.add_argument("--columns", type=lambda names: names.split(","), metavar="NAME,NAME...",
                        help="take only these columns")
    parser.add_argument("inputs", nargs="+", metavar="INPUT.parquet")
    given = parser.parse_args()
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise Failure(UNAVAILABLE, "pyarrow is missing: pip install pyarrow") from None
    for path in given.inputs:
        if same_file(path, given.output):
            raise Failure(USAGE, f"{given.output} is an input, so it cannot be the output")

    with Output(given.output) as out:
        def write(to):
            for path in given.inputs:
                convert(path, given.columns, to, out.is_terminal())

        if given.output.endswith(".zst"):
            compress(out, write)
        else:
            write(out)


def same_file(a, b):
    try:
        return b != "-" and os.path.samefile(a, b)
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    hold_standard_descriptors()
    run("parquet.py", main)
