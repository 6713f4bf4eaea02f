"""writer.py -- writes a stream, and runs a stage between two pipes."""
import contextlib
import itertools
import os
import select
import signal
import stat
import sys

import xxhash
import zstandard

from .errors import StreamError, safe
from .message import encode
from .record import check_head, check_record
from .stream import MAX_RECORD, Stream, read
from .version import VERSION

DATA, SOFTWARE, OS, IO = 65, 70, 71, 74  # exit statuses: sysexits.h
COMPUTED = ["positions", "rollout", "reward", "advantage"]  # each is computed from those before it


class Output:
    """A file that appears whole or not at all: `with Output(path) as out: out.write(data)`.

    path "-": standard output.  A symbolic link is replaced.  A FIFO, a device and /dev/fd/N are written
    directly.  Raises OSError; StreamError: standard output is a terminal.
    """

    def __init__(self, path):
        self.path, self.temporary, self.name = os.fspath(path), None, "<stdout>"
        if self.path == "-":
            self.fd = 1
        else:
            self.name = os.fsdecode(path)
            try:
                kind = os.stat(path).st_mode
            except FileNotFoundError:
                kind = stat.S_IFREG
            own = self.name.startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
            direct = own or not stat.S_ISREG(kind)
            self.fd = os.open(path, os.O_WRONLY | os.O_NOCTTY) if direct else self.create()
        if os.isatty(self.fd):
            self.abandon()
            raise StreamError("is a terminal, and a stream is binary: use a pipe, or rf-dump", self.name)

    def create(self):
        folder, name = os.path.split(self.name)
        for n in itertools.count():
            self.temporary = os.path.join(folder, f".{name[:60]}.tmp-{os.getpid()}" + f"-{n}" * (n > 0))
            try:
                return os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            except FileExistsError:
                pass

    def write(self, data):
        data = memoryview(data)
        while len(data):
            try:
                data = data[os.write(self.fd, data):]
            except BlockingIOError:  # a pipe that does not block
                select.select([], [self.fd], [])

    def commit(self):
        """Makes the file appear."""
        if self.temporary:
            os.fsync(self.fd)
            os.close(self.fd)
            self.fd = -1
            os.rename(self.temporary, self.path)
            self.temporary = None
            with contextlib.suppress(PermissionError):  # the folder may be written, and not read
                folder = os.open(os.path.dirname(self.name) or ".", os.O_RDONLY)
                os.fsync(folder)
                os.close(folder)

    def abandon(self):
        if self.fd > 2:
            os.close(self.fd)
        if self.temporary:
            os.unlink(self.temporary)
        self.fd, self.temporary = -1, None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.commit()
        finally:
            self.abandon()


class Messages:
    """The messages of a stream on their way out."""

    def __init__(self, out, max_record):
        self.out, self.seq, self.hash = out, 0, xxhash.xxh64()
        self.max_record = min(max_record, 2**32 - 1)  # msgpack counts bytes in 32 bits
        self.zstd = zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=True)

    def put(self, kind, make, *given):
        """Writes one message, whose body make(*given) returns.  Raises StreamError, OSError."""
        try:
            data = encode([self.seq, kind, make(*given)])
            if len(data) > self.max_record:
                raise StreamError(f"the message would have {len(data)} bytes, more than the limit of "
                                  f"{self.max_record} (raise max_record, also of the programs that read the "
                                  "stream, or use shorter sequences or fewer rollouts)")
        except StreamError as error:
            error.file, error.record = self.out.name, self.seq
            error.place = f"record {self.seq}" if self.seq else "head"
            raise
        self.out.write(self.zstd.compress(data))
        self.hash.update(data)
        self.seq += 1

    def end(self):
        self.put("end", lambda: {"count": self.seq - 1, "xxh64": self.hash.intdigest()})


def write_stream(path, records, head, max_record):
    """Writes a stream with this head.  Returns the number of records."""
    seen = set()

    def checked(record):
        if record is None:
            raise StreamError("it is None (does the function return the record?)")
        record = check_record(record, head.get("vocab", 0), written=True)
        if record["id"] in seen:
            raise StreamError(f"id {record['id']} occurs twice")
        seen.add(record["id"])
        return record

    with Output(path) as out:
        messages = Messages(out, max_record)
        messages.put("head", check_head, head)
        for record in records:
            messages.put("seq", checked, record)
        messages.end()
    return len(seen)


def head_after(head, tool, options):
    """Returns a copy of a head whose history ends with this stage."""
    done = {"tool": tool, "version": VERSION, "options": dict(options or {})}
    return {"format": 1, **head, "history": [*head.get("history", []), done]}


def write(path, records, like=None, head=None, tool="rftools", options=None, max_record=MAX_RECORD):
    """Writes a stream and returns the number of its records.

    path      a file, which appears whole or not at all; "-": standard output
    records   an iterable of dicts with the keys of rf-stream(5), in any order.  An array is a numpy array or
              lists of numbers; the arrays of known keys become <f4 or <i4, and truth values 0 or 1.
              Other floats become float64.
    like      the stream, or its path, whose head is copied: vocab, seed, tokenizer, model, history.  A Stream
              is read to its end, so that the output is whole only if the input is.
    head      keys that replace those of the head
    tool, options   the stage that is appended to the history: its name, and the options that change results

    The key shard is left out, because the records need not be the share that it describes.  Raises
    StreamError: a record breaks a rule of rf-stream(5), or an id occurs twice; OSError.
    """
    source = like if isinstance(like, Stream) or like is None else read(like, max_record)
    base = {key: value for key, value in (source.head if source else {}).items() if key != "shard"}

    def rest():
        yield from records
        if source is like and like is not None:
            for _ in like:
                pass

    with contextlib.ExitStack() as closing:
        if source is not like:
            closing.enter_context(source)
        return write_stream(path, rest(), head_after({**base, **(head or {})}, tool, options), max_record)


def replace(record, key, value):
    """Sets positions, rollout, reward or an advantage of a record, and removes the values that were computed
    from the old value: rf-stream(5).  Returns the record."""
    for later in COMPUTED[COMPUTED.index(key.replace("_per_token", "")):]:
        record.pop(later, None)
    record.pop("advantage_per_token", None)
    record[key] = value
    return record


def stage(name, change, options=None, max_record=MAX_RECORD):
    """Runs a stage: reads a stream from standard input, and writes the changed records to standard output.

    name     the name in the history and in messages, such as "mine.py"
    change   a function that gets a record, and returns it or another record for its place
    options  a dict of the options that change results, for the history

    Ends the program: 0; 65: the input is damaged; 70: `change` returned a bad record; 71: memory ran out; 74:
    reading or writing failed.  The output has an end record only if the input has one and nothing failed.
    What `change` prints goes to standard error.
    """
    def run():
        with read("-", max_record) as source, contextlib.redirect_stdout(sys.stderr):
            write_stream("-", map(change, source), head_after(source.head, name, options), max_record)

    try:
        run()
        status = 0
    except StreamError as error:
        status, said = SOFTWARE if error.file == "<stdout>" else DATA, str(error)
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except OSError as error:
        status, said = IO, f"{error.filename or '<stdout>'}: {error.strerror}"
    except MemoryError:
        status, said = OS, "out of memory"
    if status:
        print(safe(f"{name}: {said}"), file=sys.stderr)
    sys.exit(status)
