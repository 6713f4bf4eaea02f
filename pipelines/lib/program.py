"""program.py -- messages, outputs and exits of the Python programs, like those of the programs in C.

    import program
    program.run("name.py", main)        # main() returns, or raises Failure(status, sentence)

An error is one line on standard error, "name.py: sentence", in which no name can control a terminal.  The
exit status is that of sysexits.h.  A standard descriptor that is closed is never taken by another file.
"""
import errno
import fcntl
import io
import os
import select
import signal
import stat
import sys

USAGE, DATA, NOINPUT, UNAVAILABLE, SOFTWARE, OS, IO = 64, 65, 66, 69, 70, 71, 74
MESSAGE = 4096  # bytes of a line, so that it is written whole
ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
          signal.SIGALRM, signal.SIGVTALRM, signal.SIGXCPU]
# characters above 127 that control a terminal, are invisible or change the direction: lib/base/utf8.c
UNSAFE = [(0x80, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x200B, 0x200B), (0x200E, 0x200F),
          (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF),
          (0xE0000, 0xE0FFF)]
temporaries = set()  # files that a signal removes


class Failure(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def unsafe(code):
    return any(first <= code <= last for first, last in UNSAFE)


def shown(character):
    """Returns a character as a message shows it; a byte that was not UTF-8 is one of U+DC80 to U+DCFF."""
    code = ord(character)
    if character in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[character]
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF or unsafe(code):
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character


def safe(text):
    return "".join(map(shown, str(text)))


def safe_json(line):
    """Returns a line of JSON with the escapes that a terminal needs; they can stand only in its strings."""
    def escaped(character):
        code = ord(character)
        if code != 0x7F and not unsafe(code):
            return character
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join(map(escaped, line))


def say(name, text):
    """Writes a message.  A closed terminal or a full disk does not end the program."""
    line = safe(f"{name}: {text}").encode(errors="replace")
    if len(line) >= MESSAGE:
        line = line[:MESSAGE - 4].decode(errors="ignore").encode() + b"..."
    try:
        os.write(2, line + b"\n")
    except OSError:
        pass


def hold_standard_descriptors():
    """Opens each closed standard descriptor so that using it as standard input or output fails."""
    for number in range(3):
        try:
            fcntl.fcntl(number, fcntl.F_GETFD)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if number == 0 else os.O_RDONLY)
            os.set_inheritable(number, True)


def end_by(number):
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


def killed(number, _):
    for path in temporaries:
        try:
            os.unlink(path)
        except OSError:
            pass
    end_by(number)


def handle_signals():
    """Lets a signal that ends a program remove its temporary files; one that nohup(1) ignores stays so."""
    for number in ENDING:
        if number in (signal.SIGTERM, signal.SIGINT) or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, killed)


class Printed(io.FileIO):
    """Standard output, which records its failure, because argparse ignores it."""
    failure = None

    def write(self, data):
        try:
            return super().write(data)
        except OSError as error:
            Printed.failure = error
            raise


class Said(io.FileIO):
    """Standard error.  A failed write does not end the program."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError:
            return len(data)


def open_standard_files():
    """Opens the standard files whose descriptors were closed, because libraries use them.  Writing to
    standard output then fails, as it does in C.  Messages are lost."""
    hold_standard_descriptors()
    sys.stdin = sys.stdin or open(os.devnull)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(Printed(1, "w", closefd=False)), encoding="utf-8",
                                  errors="surrogateescape", line_buffering=os.isatty(1))
    sys.stderr = io.TextIOWrapper(Said(2, "w", closefd=False), errors="backslashreplace", line_buffering=True,
                                  write_through=True)


def finish(main):
    """Runs main(), also if it ends with sys.exit(), and then writes the buffer of print()."""
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code or 0
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        with open(os.devnull, "w") as nothing:  # else Python would try again, and complain
            os.dup2(nothing.fileno(), 1)
        raise
    if Printed.failure:
        raise Printed.failure
    if not isinstance(status, int):
        raise Failure(1, status)
    return status


def run(name, main):
    """Runs a program and ends it.  An exception of main() becomes one line and an exit status."""
    status = 0
    try:
        status = finish(main)
    except Failure as failure:
        say(name, failure)
        status = failure.status
    except BrokenPipeError:
        end_by(signal.SIGPIPE)
    except OSError as error:
        say(name, f"{error.filename or '<stdout>: write'}: {error.strerror or error}")
        status = IO
    except MemoryError:
        say(name, "out of memory")
        status = OS
    except Exception as error:
        say(name, f"internal error: {type(error).__name__}: {one_line(error)}")
        status = SOFTWARE
    sys.exit(status)


def one_line(error):
    return " ".join(str(error).split())


# ---- outputs ---------------------------------------------------------------------------------

class Output:
    """A file that appears only when it is complete, or a FIFO or device that is written directly, as by -o of
    the programs in C (lib/io/tempfile.h).

        with Output(path) as out: out.write(bytes)

    path "-": standard output.  A symbolic link is replaced, not followed.  A device, a FIFO, /dev/stdout and
    /dev/fd/N are opened and written.  Failures: USAGE: path is a directory, or ends in no name; IO.
    """

    def __init__(self, path):
        self.name, self.path, self.temporary, self.buffer = path, path, None, bytearray()
        if path == "-":
            self.name, self.fd = "<stdout>", 1
            return
        try:
            kind = os.stat(path).st_mode
        except (OSError, ValueError):
            kind = None
        if is_descriptor(path) or (kind is not None and not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)):
            self.fd = self.attempt("open", os.open, path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            return
        if os.path.basename(path) in ("", ".", "..") or (kind is not None and stat.S_ISDIR(kind)):
            raise Failure(USAGE, f"{path}: is a directory, not a file" if path
                          else "-o: the value is empty (try --help)")
        self.create()

    def create(self):
        """Opens a temporary file next to the path.  A signal finds it in the list as soon as it exists."""
        folder, name = os.path.split(self.path)
        for again in range(1000):
            suffix = f".tmp-{os.getpid()}" + (f"-{again}" if again else "")
            part = os.fsdecode(os.fsencode(name)[:200])
            temporary = os.path.join(folder, f".{part}{suffix}")
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            try:
                self.fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC |
                                  os.O_NOFOLLOW, 0o666)
                self.temporary = temporary
                temporaries.add(temporary)
                return
            except FileExistsError:
                continue
            except (OSError, ValueError) as error:
                raise Failure(IO, f"{self.path}: {getattr(error, 'strerror', None) or error}") from None
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise Failure(IO, f"{self.path}: too many temporary files exist beside it: remove these leftovers")

    def attempt(self, what, call, *arguments):
        try:
            return call(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Failure(IO, f"{self.name}: {what}: {error.strerror}") from None

    def is_terminal(self):
        return os.isatty(self.fd)

    def write(self, data):
        self.buffer += data
        if len(self.buffer) >= 1 << 16:
            self.flush()

    def flush(self):
        while self.buffer:
            try:
                written = os.write(self.fd, self.buffer)
            except BlockingIOError:
                select.select([], [self.fd], [])
                continue
            except BrokenPipeError:
                raise
            except OSError as error:
                raise Failure(IO, f"{self.name}: write: {error.strerror}") from None
            del self.buffer[:written]

    def commit(self):
        self.flush()
        if self.temporary:
            self.attempt("sync", os.fsync, self.fd)
        fd, self.fd = self.fd, -1
        self.attempt("close", os.close, fd)
        if fd == 1:  # so that no later file becomes standard output
            os.open(os.devnull, os.O_WRONLY)
        if not self.temporary:
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            self.attempt("rename", os.rename, self.temporary, self.path)
            temporaries.discard(self.temporary)
            self.temporary = None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.attempt("sync", sync_folder, os.path.dirname(self.path) or ".")

    def abandon(self):
        if self.fd > 2:
            os.close(self.fd)
        self.fd = -1
        if self.temporary:
            os.unlink(self.temporary)
            temporaries.discard(self.temporary)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.commit()
        finally:
            self.abandon()


def is_descriptor(path):
    return path in ("/dev/stdout", "/dev/stderr") or path.startswith(("/dev/fd/", "/proc/self/fd/"))


def sync_folder(path):
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # it may be written, and not read
        return
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(folder)
