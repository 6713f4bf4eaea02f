"""message.py -- the msgpack objects of a stream.

Messages may be hostile.  decode() therefore walks over the bytes itself: it compares each length with the
bytes left, and copies no binary value.  msgpack's own reader would copy them before they could be checked.
"""
import math
import struct

import msgpack
import numpy

from .errors import StreamError

VALUES, DEPTH = 100000, 8
DTYPES = ("<f4", "<f2", "<i4", "<i8", "|u1")
CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
           0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
LENGTHS = {0xC4: (bytes, ">B"), 0xC5: (bytes, ">H"), 0xC6: (bytes, ">I"),
           0xD9: (str, ">B"), 0xDA: (str, ">H"), 0xDB: (str, ">I"),
           0xDC: (list, ">H"), 0xDD: (list, ">I"), 0xDE: (dict, ">H"), 0xDF: (dict, ">I")}


def whole(x, least=0, most=2**64 - 1):
    """Returns whether x is a whole number in this range; a bool is not a number."""
    return type(x) is int and least <= x <= most


class Walk:
    """A walk over the bytes of one object."""

    def __init__(self, data):
        self.data, self.at, self.left = memoryview(data), 0, VALUES

    def fail(self, at, why):
        raise StreamError(f"bad msgpack at byte {at} of the message: {why}")

    def number(self, begin, form):
        n = struct.calcsize(form)
        if len(self.data) - self.at < n:
            self.fail(begin, "the message is cut short")
        self.at += n
        return struct.unpack_from(form, self.data, self.at - n)[0]

    def value(self, depth=0):
        """Returns the next value: a binary value as a memoryview, other values as msgpack returns them."""
        begin, data = self.at, self.data
        self.left -= 1
        if self.left < 0:
            self.fail(begin, "more than 100000 values in one message")
        tag = self.number(begin, ">B")
        if tag < 0x80 or tag >= 0xE0:
            return tag if tag < 0x80 else tag - 256
        if tag in CONSTANTS:
            return CONSTANTS[tag]
        if tag in NUMBERS:
            x = self.number(begin, NUMBERS[tag])
            if not math.isfinite(x):
                self.fail(begin, "a number is NaN or infinite")
            return x
        if tag < 0xC0:
            kind, n = (dict, tag & 15) if tag < 0x90 else (list, tag & 15) if tag < 0xA0 else (str, tag & 31)
        elif tag in LENGTHS:
            kind, n = LENGTHS[tag][0], self.number(begin, LENGTHS[tag][1])
        else:
            what = "byte c1 does not begin a msgpack object" if tag == 0xC1 else "an extension type"
            self.fail(begin, what)
        if kind in (list, dict):
            return self.items(begin, kind, n, depth)
        if n > len(data) - self.at:
            self.fail(begin, "a string claims more bytes than there are")
        self.at += n
        if kind is bytes:
            return data[self.at - n:self.at]
        try:
            return str(data[self.at - n:self.at], "utf-8")
        except UnicodeDecodeError:
            self.fail(begin, "a string is not UTF-8")

    def items(self, begin, kind, n, depth):
        if n * (1 if kind is list else 2) > len(self.data) - self.at:
            self.fail(begin, "a list or map claims more elements than there are bytes")
        if depth == DEPTH:
            self.fail(begin, "it is nested more than 8 levels deep")
        if kind is list:
            return [self.value(depth + 1) for _ in range(n)]
        found = {}
        for _ in range(n):
            key = self.value(depth + 1)
            if type(key) is not str:
                self.fail(begin, "a map key is not a string")
            if "\0" in key:
                self.fail(begin, "a map key contains a NUL")
            if key in found:
                self.fail(begin, "a map key occurs twice")
            found[key] = self.value(depth + 1)
        return found


def decode(data):
    """Returns the one object in data.  Its binary values are memoryviews of data.  Raises StreamError."""
    walk = Walk(data)
    found = walk.value()
    if walk.at != len(data):
        walk.fail(walk.at, "bytes follow the first object")
    return found


def owned(value):
    """Returns a decoded value that has its own memory, with each array {dtype, shape, data} in it as a numpy
    array.  A map that is not quite an array stays a map."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return [owned(x) for x in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["dtype", "shape", "data"] and value["dtype"] in DTYPES:
        shape = value["shape"]
        try:
            if all(whole(n, 0, 2**31 - 1) for n in shape):
                return numpy.frombuffer(value["data"], value["dtype"]).reshape(shape).copy()
        except (TypeError, ValueError):
            pass
    return {key: owned(x) for key, x in value.items()}


def plain(value):
    """Returns what msgpack can write instead of a value of numpy."""
    if isinstance(value, numpy.generic):
        return value.item()
    if not isinstance(value, numpy.ndarray):
        raise TypeError(f"a value of the type {type(value).__name__} has no form in a stream")
    if value.dtype.str not in DTYPES:
        raise TypeError(f"an array has the dtype {value.dtype.str}, not one of {', '.join(DTYPES)}")
    data = numpy.ascontiguousarray(value).reshape(-1).view("|u1")
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": memoryview(data)}


def encode(message):
    """Returns the bytes of [seq, type, body], in which arrays are numpy arrays.  Raises StreamError: a value
    has no form in a stream, or breaks a rule of messages."""
    try:
        data = msgpack.packb(message, default=plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise StreamError(" ".join(str(error).split())) from None
    decode(data)
    return data
