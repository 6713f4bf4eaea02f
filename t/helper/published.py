#!/usr/bin/env python3
"""published.py -- makes and compares checkpoints like published ones: bf16, in shards, with other files.

    published.py publish DIR NEW SHARDS   makes NEW: the bf16 checkpoint DIR in shards, with the names of
                                          shards that its family has, and all of its other files.  A Qwen3.5
                                          also gets the tensors outside its text model, and float32 tensors
                                          where published models have them
    published.py same A B                 fails unless B has tensors of the same names, types and shapes as A
    published.py equal A B                fails unless B has the same tensors as A, byte for byte
"""
import json
import os
import shutil
import sys

sys.dont_write_bytecode = True
from qwen import OTHERS, QWEN_SHARD, read_dir, write_shards

WIDE = (".linear_attn.A_log", ".linear_attn.norm.weight")  # float32 in every published Qwen3.5


def widen(tensor):
    """Returns a bf16 tensor as float32: bf16 is the upper half of float32."""
    dtype, shape, data = tensor
    if dtype == "BF16":
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    return "F32", shape, data


def publish(old, new, shards):
    tensors = read_dir(old)
    with open(os.path.join(old, "config.json")) as f:
        sees = json.load(f)["model_type"] == "qwen3_5"
    os.mkdir(new)
    for name in os.listdir(old):
        if not name.startswith("model."):
            shutil.copy(os.path.join(old, name), os.path.join(new, name))
    if sees:
        tensors = {name: widen(t) if name.endswith(WIDE) else t for name, t in tensors.items()} | OTHERS
    odd = [name for name, t in tensors.items() if t[0] != "BF16" and not (sees and name.endswith(WIDE))]
    if set(odd) - OTHERS.keys():
        sys.exit(f"not bf16: {odd}")
    write_shards(new, dict(sorted(tensors.items())), shards,
                 QWEN_SHARD if sees else "model-{:05}-of-{:05}.safetensors")


def same(a, b, parts):
    a, b = read_dir(a), read_dir(b)
    bad = sorted(name for name in a.keys() | b.keys()
                 if name not in a or name not in b or a[name][:parts] != b[name][:parts])
    for name in bad:
        print(name, *("missing" if name not in t else t[name][:2] for t in (a, b)))
    sys.exit(bool(bad))


if __name__ == "__main__":
    word, args = sys.argv[1], sys.argv[2:]
    if word == "publish":
        publish(args[0], args[1], int(args[2]))
    else:
        same(*args, {"same": 2, "equal": 3}[word])
