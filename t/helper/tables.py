"""tables.py FILE... -- checks that rftools.frame() and rftools.rows() give the tables of rf-dump --csv: the
columns and their order, each text, each whole number, each float32, and the 7 digits that rf-dump prints of
other numbers.  Each engine that is installed reads the rows of all kinds.  Exits 1 if a cell differs."""
import csv
import importlib.util
import io
import math
import subprocess
import sys

import numpy

import rftools

KINDS = ["auto", "record", "position", "rollout", "token", "sample", "choice"]
# columns that no table shows by default
HIDDEN = {"record": "record,ntp_accuracy,n,prompt,answer",
          "rollout": "t,token,nll,length,logp_ref,kept,reward.count,reward.x,T",
          "token": "entropy_mean,positions", "choice": "record,source", "sample": "prompt,T,record"}


def same(cell, value, single):
    if value is None or type(value).__name__ == "NAType" or isinstance(value, float) and math.isnan(value):
        return cell == ""
    if isinstance(value, str):
        return value == ("" if cell == "EMPTY" else cell)
    if isinstance(value, int):
        return cell == str(value)
    digits = not single and f"{value:.7g}" == f"{float(cell):.7g}"
    return digits or numpy.float32(cell) == numpy.float32(value)


def table_of(path, kind, columns):
    """Returns the names and the lines that rf-dump prints; an empty text is the word EMPTY."""
    command = ["rf-dump", "--csv", "--rows", kind, *(["--columns", columns] if columns else []), path]
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if found.returncode:
        return None
    # csv.reader takes away the quotes that distinguish an empty text from a missing value
    names, *lines = csv.reader(io.StringIO(found.stdout.decode().replace(',"",', ',EMPTY,')))
    return names, lines


def compare(path, kind, engine, columns, names, lines):
    asked = columns.split(",") if columns else None
    frame = rftools.frame(path, rows=kind, columns=asked, engine=engine)
    assert list(frame.columns) == names, f"the columns are {names}, not {list(frame.columns)}"
    rows = list(rftools.rows(path, rows=kind, columns=asked))
    assert len(frame) == len(rows) == len(lines), f"{len(lines)} rows, not {len(frame)} and {len(rows)}"
    for name, cells in zip(names, zip(*lines)):
        single = "32" in str(frame[name].dtype)
        values = frame[name].to_list() if engine == "polars" else frame[name].tolist()
        for number, (cell, value, row) in enumerate(zip(cells, values, rows), 1):
            assert same(cell, value, single) and same(cell, row[name], single), \
                f"row {number}: {name} is {cell!r}, not {value!r} and {row[name]!r}"
    return len(lines) * len(names)


cells = 0
engines = [name for name in ("pandas", "polars") if importlib.util.find_spec(name)]
for path in sys.argv[1:]:
    for kind in KINDS:
        for columns in [None, HIDDEN[kind]] if kind in HIDDEN else [None]:
            table = table_of(path, kind, columns)
            for engine in engines:
                try:
                    if table:
                        cells += compare(path, kind, engine, columns, *table)
                    else:  # rf-dump knows no such column
                        rftools.frame(path, rows=kind, columns=columns.split(","), engine=engine)
                        raise AssertionError(f"{columns}: rf-dump refuses such a column")
                except AssertionError as error:
                    sys.exit(f"{path}: {kind}: {engine}: {error}")
                except ValueError:
                    assert not table, f"{path}: {kind}: {columns}"
print(f"{cells} cells, {', '.join(engines)}")
