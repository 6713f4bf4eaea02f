# speaker.py DIR TOKEN... -- changes the fresh model in DIR so that it generates these tokens again and again,
# whatever its prompt is: the blocks add nothing, and the head's row of each token matches the embedding of
# the preceding token.
import struct
import sys

sys.dont_write_bytecode = True
from qwen import read, write

path = sys.argv[1] + "/model.safetensors"
say = [int(word) for word in sys.argv[2:]]
tensors = read(path)
for name, (dtype, shape, data) in tensors.items():
    rows, columns = shape[0], shape[1] if len(shape) > 1 else 1
    values = [0.0] * rows * columns
    if "embeddings" in name:  # each of these tokens has its own direction, and all other tokens share one
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
    assert len(data) == 4 * len(values), name
    tensors[name] = (dtype, shape, struct.pack("<%df" % len(values), *values))
write(path, tensors)
