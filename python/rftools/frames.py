"""frames.py -- reads the zstd frames of a stream, one at a time, and nothing after a frame.

The sizes that a frame claims are checked before memory is allocated for its content: RFC 8878, 3.1.1.
"""
import select

import zstandard

from .errors import StreamError

ZSTD = b"\x28\xb5\x2f\xfd"
WINDOW_MAX, BLOCK_MAX = 8 << 20, 128 << 10


class Frames:
    """The frames of a binary file, which may be a pipe.

    offset   bytes read so far
    at       where the newest frame begins
    """

    def __init__(self, file, max_record):
        self.file, self.max_record, self.offset, self.at = file, max_record, 0, 0
        self.zstd = zstandard.ZstdDecompressor()

    def read(self, n):
        """Returns the next n bytes, or fewer at the end of the file."""
        parts, left = [], n
        while left:
            part = self.file.read(left)
            if part is None:  # a pipe that does not block
                select.select([self.file], [], [])
                continue
            if not part:
                break
            parts.append(part)
            left -= len(part)
        self.offset += n - left
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take(self, n):
        """Returns the next n bytes.  Raises StreamError: there are fewer."""
        data = self.read(n)
        if len(data) < n:
            raise StreamError("the frame is truncated (the stream was cut, or its writer died)")
        return data

    def begin(self):
        """Passes over skippable frames.  Returns the 4 bytes after them, or fewer at the end of the file."""
        while True:
            magic = self.read(4)
            self.at = self.offset - len(magic)
            if len(magic) < 4 or magic[0] >> 4 != 5 or magic[1:] != b"\x2a\x4d\x18":
                return magic
            left = int.from_bytes(self.take(4), "little")
            while left:
                part = self.read(min(left, 1 << 16))
                left, self.at = left - len(part), self.offset
                if not part:
                    self.take(1)

    def next(self):
        """Returns the content of the next frame; None at the end of the file.  Raises StreamError."""
        magic = self.begin()
        if not magic:
            return None
        if not ZSTD.startswith(magic):
            text = all(b in b"\t\n\r" or 32 <= b < 127 for b in magic)
            looks = ("it looks like text (rf-tokenize reads text, rf-cat --json the lines of rf-dump --json)"
                     if text else f"it begins with {magic.hex(' ')}")
            raise StreamError(f"no zstd frame begins here ({magic.hex(' ')})" if self.at
                              else f"not an rf stream: {looks}")
        content, block_max, head = self.header(magic + self.take(5 - len(magic)))
        parts, size, most, last = [head], len(head), 0, 0
        while not last:
            block = self.take(3)
            h = int.from_bytes(block, "little")
            last, kind, n = h & 1, h >> 1 & 3, h >> 3
            if kind == 3 or n > block_max:
                raise StreamError("the frame is damaged (it has an impossible block)")
            parts += [block, self.take((1 if kind == 1 else n) + 4 * last)]
            size += sum(map(len, parts[-2:]))
            most += block_max if kind == 2 else n
            if size > self.max_record + (self.max_record >> 8) + 64:
                raise StreamError("the frame has more bytes than max_record allows for a record")
        if content > most:
            raise StreamError(f"the record claims {content} bytes, but its blocks hold at most {most}")
        try:
            return self.zstd.decompress(b"".join(parts), max_output_size=content)
        except zstandard.ZstdError as error:
            reason = str(error).replace("decompression error: ", "")
            raise StreamError(f"the frame is damaged ({reason})") from None

    def header(self, head):
        """Reads the rest of a header.  Returns content size, largest block, and all bytes of the header."""
        d = head[4]
        single, n = d >> 5 & 1, (d >> 5 & 1, 2, 4, 8)[d >> 6]
        head += self.take(1 - single + (0, 1, 2, 4)[d & 3] + n)
        if d >> 3 & 1:
            raise StreamError("the frame has a reserved bit set")
        if d & 3:
            raise StreamError("the frame needs a dictionary")
        if not n:
            raise StreamError("the zstd frame does not state its content size, which every frame of an rf "
                              "stream does (was the stream compressed again? use the original: each record "
                              "is a frame of its own)")
        if not d >> 2 & 1:
            raise StreamError("the zstd frame has no checksum, which every frame of an rf stream has")
        content = int.from_bytes(head[-n:], "little") + (256 if n == 2 else 0)
        window = content if single else (1 << 10 + (head[5] >> 3)) // 8 * (8 + (head[5] & 7))
        if content > self.max_record:
            raise StreamError(f"the record claims {content} bytes, more than the limit of {self.max_record} "
                              "(raise max_record)")
        if window > WINDOW_MAX:
            raise StreamError(f"the frame has a window of {window} bytes, more than 8 MiB")
        return content, min(window, BLOCK_MAX), head
