"""refusals.py FILE -- checks that rftools refuses the streams that the reader in C refuses.

FILE has the streams of unit programs (keep_stream in t/unit/streams.h), each with the sentence of the reader
in C.  Prints each stream whose sentence differs, and the number of streams.  Exits 1 if a sentence differs.

Sentences are compared without these parts: the words of libzstd, of which the two readers may have different
versions; the description of an input that is not a stream; the byte of a message at which a mistake is.  A
newer libzstd also refuses a few damaged frames that an older one can still read; of 1000 streams one may be
such a stream.
"""
import io
import re
import struct
import sys

from rftools import StreamError, read

SAME = [(r"the frame is damaged \(.*", "the frame is damaged"), (r"not an rf stream: .*", "not an rf stream"),
        (r"bad msgpack at byte \d+", "bad msgpack"), (r"--max-record", "max_record")]


def refusal(data):
    """Returns the sentence with which rftools refuses a stream; "": it is read to its end."""
    file = io.BytesIO(data)
    file.name = "<test>"
    try:
        for _ in read(file):
            pass
    except StreamError as error:
        return str(error)
    return ""


def same(sentence):
    for pattern, word in SAME:
        sentence = re.sub(pattern, word, sentence)
    return sentence


count = refused = different = stricter = 0
with open(sys.argv[1], "rb") as kept:
    while sizes := kept.read(8):
        n, said = struct.unpack("<2I", sizes)
        data, want = kept.read(n), kept.read(said).decode()
        found = refusal(data)
        count, refused = count + 1, refused + bool(want)
        # rftools does not look into such a frame
        other = "a zstd frame with other contents" in want and found
        if not want and ": the frame is damaged (" in found:
            stricter += 1
        elif same(found) != same(want) and not other:
            different += 1
            print(f"stream {count} of {n} bytes\n  C:      {want}\n  Python: {found}")
print(f"{count} streams, {refused} refused, {different} in other words")
sys.exit(different > 0 or not refused or 1000 * stricter > count)
