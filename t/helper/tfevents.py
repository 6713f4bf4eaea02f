"""Prints the scalars of event files: wall time, step, tag and value of each; checks lengths and checksums."""
import struct, sys


def checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


for path in sys.argv[1:]:
    data, at, first = open(path, "rb").read(), 0, True
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        body = data[at + 12:at + 12 + length]
        assert len(body) == length and len(data) >= at + 16 + length, "the file ends inside a record"
        sums = struct.unpack_from("<I", data, at + 8)[0], struct.unpack_from("<I", data, at + 12 + length)[0]
        assert sums == (checksum(data[at:at + 8]), checksum(body)), f"checksum of the record at {at}"
        at += 16 + length
        event = dict(fields(body))
        assert first == (event.get(3) == b"brain.Event:2"), "the version comes first, and once"
        first = False
        if dict(fields(event.get(7, b""))).get(1) == 1:  # the status START of a session
            print(f"{struct.unpack('<d', event[1])[0]:.3f}", event.get(2, 0), "", "restart", sep="\t")
        for field, value in fields(event.get(5, b"")):
            one = dict(fields(value))
            print(f"{struct.unpack('<d', event[1])[0]:.3f}", event.get(2, 0), one[1].decode(),
                  repr(struct.unpack("<f", one[2])[0]), sep="\t")
