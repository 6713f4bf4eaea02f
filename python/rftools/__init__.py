"""rftools -- reads, writes and tabulates the streams of rf-tools: rf-stream(5).

    for record in rftools.read("kept.rf"): record["rollout"]["logp"]     # numpy arrays
    rftools.frame("kept.rf", rows="rollout")                             # pandas or polars, as rf-dump --tsv
    rftools.write("mine.rf", records, like="kept.rf")
    rftools.stage("mine.py", change)                                     # a program between two pipes

A record is a dict with the keys of rf-stream(5), in the order of that page.  Its arrays are numpy arrays that
belong to the caller, and its maps (rollout, reward, meta) are dicts.  A stream that is damaged or breaks a
rule raises StreamError.
"""
from .errors import StreamError
from .stream import MAX_RECORD, Stream, read
from .table import frame, rows, to_parquet
from .version import VERSION as __version__
from .writer import replace, stage, write

__all__ = ["MAX_RECORD", "Stream", "StreamError", "__version__", "frame", "read", "replace", "rows", "stage",
           "to_parquet", "write"]
