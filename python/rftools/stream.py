"""stream.py -- reads a stream, one record after the other, and verifies it."""
import errno
import os
import sys

import xxhash

from .errors import StreamError, quote
from .frames import ZSTD, Frames
from .message import decode, whole
from .record import check_head, check_record, sort_map

MAX_RECORD = 256 << 20


def open_message(message):
    """Returns seq, type and body of a message.  Raises StreamError."""
    if not isinstance(message, list) or len(message) != 3:
        raise StreamError("the message is not [seq, type, body]")
    seq, kind, body = message
    if not whole(seq):
        raise StreamError("the message is not [seq, type, body]: seq is not a whole number")
    if not isinstance(kind, str):
        raise StreamError("the message is not [seq, type, body]: type is not a string")
    if kind not in ("head", "seq", "end"):
        raise StreamError(f"the message has the type '{quote(kind)}', which format 1 does not define")
    if not isinstance(body, dict):
        raise StreamError("the message is not [seq, type, body]: body is not a map")
    return seq, kind, body


class Stream:
    """An open stream: an iterator over its records.

    name   "<stdin>" or the path
    head   the head: a dict with the keys of rf-stream(5)
    count  records read so far
    ended  whether the end record was read: only then is the stream whole

    Only one record is in memory.  A loop ends without an error only after the end record, if its count and
    hash are right and nothing follows it.  A failure raises StreamError, and each later step raises it again.
    The file is closed after the end, after a failure, and by a with statement.
    """

    def __init__(self, source, max_record=MAX_RECORD):
        self.name, self.close = "<stdin>", lambda: None
        if hasattr(source, "read"):
            self.name = str(getattr(source, "name", "<stream>"))
        elif source == "-":
            if sys.stdin is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.name)
            if sys.stdin.isatty():
                raise StreamError("is a terminal: name a file, or pipe a stream into it", self.name)
            source = sys.stdin.buffer
        else:
            self.name = os.fsdecode(source)
            source = open(source, "rb")
            self.close = source.close
        self.count, self.ended, self._seq, self._failure = 0, False, 0, None
        self._frames, self._hash = Frames(source, max_record), xxhash.xxh64()
        self.head = self._read(check_head)

    def __iter__(self):
        return self

    def __next__(self):
        """Returns the next record.  Raises StreamError, OSError."""
        if self._failure:
            raise self._failure
        vocab = self.head.get("vocab", 0)
        record = None if self.ended else self._read(lambda body: check_record(body, vocab))
        if self.ended:
            raise StopIteration
        self.count += 1
        return record

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, check):
        """Reads a message, and returns what `check` makes of its body.  A failure says where."""
        seq, self._kind = self._seq, None
        try:
            body = self._message()
            if not self.ended:
                return check(body)
            self.close()
        except OSError as error:
            self._failure = error
            self.close()
            raise
        except StreamError as error:
            self._failure, error.file = error, self.name
            self.close()
            byte = f"(byte {self._frames.at})"
            if self._kind == "end" and seq:
                error.place = f"end record {byte}"
            elif self._frames.offset and not error.reason.startswith("not an rf stream"):
                error.record, error.place = seq, f"record {seq} {byte}" if seq else f"head {byte}"
            raise

    def _message(self):
        data = self._frames.next()
        if data is None and self._seq:
            raise StreamError("the end record is missing (the stream is truncated, or its writer died)")
        if data is None:
            raise StreamError("the stream is empty (the program that writes it produced nothing)")
        seq, self._kind, body = open_message(decode(data))
        if seq != self._seq:
            raise StreamError(f"found record {seq} where record {self._seq} was expected")
        if (seq == 0) != (self._kind == "head"):
            raise StreamError("this is a second head" if seq else "the first message is not a head")
        if self._kind == "end":
            self._check_end(body)
        self._hash.update(data)
        self._seq += 1
        return body

    def _check_end(self, body):
        sort_map(body, "end", ())
        for key in ("count", "xxh64"):
            if not whole(body.get(key)):
                raise StreamError(f"the end record has no '{key}'")
        if body["count"] != self._seq - 1:
            raise StreamError(f"it counts {body['count']} records, but there are {self._seq - 1}")
        if body["xxh64"] != self._hash.intdigest():
            raise StreamError("its hash does not match the records before it")
        at, after = self._frames.at, self._frames.begin()
        self._frames.at = at
        if after:
            raise StreamError("another frame follows it (join streams with rf-cat)" if after == ZSTD
                              else "bytes follow it")
        self.ended = True


def read(source, max_record=MAX_RECORD):
    """Opens a stream and reads its head.  Returns a Stream, an iterator over the records.

    source      a path, "-" for standard input, or a binary file
    max_record  bytes that a decompressed message may have

    Raises StreamError: this is not a stream, or its head is bad; OSError: it cannot be opened or read.
    """
    return Stream(source, max_record)
