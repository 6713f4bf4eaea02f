"""errors.py -- the error of this package, and text that cannot control a terminal."""

# characters above 127 that control a terminal, are invisible or change the direction: lib/base/utf8.c
UNSAFE = [(0x80, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x200B, 0x200B), (0x200E, 0x200F),
          (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF),
          (0xE0000, 0xE0FFF)]


def shown(character):
    """Returns a character as rf-dump shows it in a table, but a backslash as it is."""
    code = ord(character)
    if character in "\t\n\r":
        return {"\t": "\\t", "\n": "\\n", "\r": "\\r"}[character]
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xD800 <= code <= 0xDFFF or code > 0x7F and any(first <= code <= last for first, last in UNSAFE):
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
    return character


def safe(text):
    """Returns a text in which no character controls a terminal."""
    return text if text.isascii() and text.isprintable() else "".join(map(shown, text))


class StreamError(ValueError):
    """A stream is damaged, or a stream or record breaks a rule of rf-stream(5).

    file     the file's name, "<stdin>" or "<stdout>"; None: not known
    record   the number of the record, from 1; 0: the head; None: none of these
    place    the place in the file, such as "record 3 (byte 5678)"; None: the whole file
    reason   what is wrong, as the programs in C say it

    str() is one line of file, place and reason.
    """

    def __init__(self, reason, file=None, record=None, place=None):
        super().__init__(reason)
        self.reason, self.file, self.record, self.place = reason, file, record, place

    def __str__(self):
        return safe(": ".join(str(part) for part in (self.file, self.place, self.reason) if part is not None))


def quote(text):
    """Returns a text as messages quote it: printable ASCII, and other bytes as \\x1b."""
    return "".join(chr(b) if 32 <= b < 127 else "\\n" if b == 10 else f"\\x{b:02x}"
                   for b in str(text).encode(errors="replace"))
