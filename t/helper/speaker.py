# speaker.py DIR TOKEN...: makes the fresh model in DIR write these tokens over and over, whatever it reads:
# the blocks add nothing, and the head's row of each token answers the embedding of the one before.
import json
import struct
import sys

path = sys.argv[1] + "/model.safetensors"
say = [int(word) for word in sys.argv[2:]]
raw = bytearray(open(path, "rb").read())
size = struct.unpack("<Q", raw[:8])[0]
tensors = json.loads(raw[8:8 + size])
tensors.pop("__metadata__", None)


def put(name, values):
    at = tensors[name]["data_offsets"]
    assert at[1] - at[0] == 4 * len(values), name
    raw[8 + size + at[0]:8 + size + at[1]] = struct.pack("<%df" % len(values), *values)


for name, tensor in tensors.items():
    shape = tensor["shape"]
    rows, columns = shape[0], shape[1] if len(shape) > 1 else 1
    values = [0.0] * rows * columns
    if "embeddings" in name:  # each token that is said has a direction of its own, all others the first
        for row in range(rows):
            values[row * columns + (say.index(row) if row in say else len(say))] = 1.0
    elif "lm_head" in name:
        for i, token in enumerate(say):
            values[token * columns + (i - 1 if i else len(say) - 1)] = 1.0
            if i == 0:
                values[token * columns + len(say)] = 1.0
    elif name.endswith("norm.weight") and len(shape) == 1:
        values = [1.0] * rows
    elif "o_proj" not in name and "down_proj" not in name:
        continue
    put(name, values)
open(path, "wb").write(raw)
