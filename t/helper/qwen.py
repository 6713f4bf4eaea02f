#!/usr/bin/env python3
"""qwen.py -- makes a Qwen3.5 checkpoint like published ones, with a vision part, and compares two of them.

    qwen.py sees DIR NEW SHARDS   makes NEW: a qwen3_5 with the text model of DIR (qwen3_5_text) as its
                                  text_config, with the names of tensors that a qwen3_5 has, and with tensors
                                  of a vision part and of a part for multi-token prediction
    qwen.py others A B            fails unless B has A's names, and all tensors outside the text model have
                                  the same types, shapes and bytes
    qwen.py drop DIR NAME         removes a tensor from DIR/model.safetensors
    qwen.py add DIR NAME          adds a tensor of one number
"""
import json
import os
import sys


def read(path):
    """Returns {name: (dtype, shape, bytes)} of one file."""
    with open(path, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    tensors = {}
    for name, t in head.items():
        begin, end = t["data_offsets"]
        tensors[name] = (t["dtype"], t["shape"], data[8 + n + begin:8 + n + end])
    return tensors


def write(path, tensors):
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values()))


def read_dir(path):
    tensors = {}
    for name in sorted(os.listdir(path)):
        if name.startswith("model") and name.endswith(".safetensors"):
            tensors.update(read(os.path.join(path, name)))
    return tensors


def noise(n):
    """Returns n bytes of all values, with NaN and infinities: programs must copy them unchanged."""
    return bytes((i * 167 + (i >> 8)) & 255 for i in range(n))


OTHERS = {
    "model.visual.blocks.0.attn.qkv.weight": ("BF16", [24, 8], noise(384)),
    "model.visual.merger.norm.bias": ("F32", [8], noise(32)),
    "model.visual.patch_embed.proj.weight": ("F16", [8, 3, 2, 2], noise(192)),
    "model.visual.positions": ("I64", [3], noise(24)),
    "model.visual.mask": ("BOOL", [2, 2], bytes([0, 1, 1, 0])),
    "model.visual.scale": ("F64", [], noise(8)),
    "model.visual.nothing": ("BF16", [0, 4], b""),
    "mtp.fc.weight": ("BF16", [8, 16], noise(256)),
    "mtp.layers.0.self_attn.q_norm.weight": ("BF16", [8], noise(16)),
    "mtp.norm.weight": ("BF16", [8], noise(16)),
}


def write_shards(path, tensors, shards, pattern):
    """Writes tensors to this many files, named by pattern, with an index; or to one file without an index."""
    names = list(tensors)
    if shards == 1:
        write(os.path.join(path, "model.safetensors"), tensors)
        return
    where = {}
    for i in range(shards):
        file = pattern.format(i + 1, shards)
        part = names[i::shards]
        write(os.path.join(path, file), {name: tensors[name] for name in part})
        where |= {name: file for name in part}
    with open(os.path.join(path, "model.safetensors.index.json"), "w") as f:
        total = sum(len(t[2]) for t in tensors.values())
        json.dump({"metadata": {"total_size": total}, "weight_map": where}, f)


QWEN_SHARD = "model.safetensors-{:05}-of-{:05}.safetensors"


def sees(old, new, shards):
    os.mkdir(new)
    with open(os.path.join(old, "config.json")) as f:
        text = json.load(f)
    tied = text["tie_word_embeddings"]
    text |= {"dtype": "bfloat16", "mtp_num_hidden_layers": 1, "mamba_ssm_dtype": "float32",
             "output_gate_type": "swish"}
    config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 30,
              "model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": tied,
              "transformers_version": "4.57.0.dev0",
              "vision_config": {"depth": 1, "dtype": "bfloat16", "hidden_size": 8, "model_type": "qwen3_5"}}
    with open(os.path.join(new, "config.json"), "w") as f:
        json.dump(config, f, indent=4)
    tensors = {name.replace("model.", "model.language_model.", 1): t
               for name, t in read_dir(old).items()} | OTHERS
    names = sorted(tensors, key=lambda name: name[::-1])  # a file may have its tensors in any order
    write_shards(new, {name: tensors[name] for name in names}, shards, QWEN_SHARD)


def others(a, b):
    a, b = read_dir(a), read_dir(b)
    if a.keys() != b.keys():
        sys.exit(f"names differ: {sorted(a.keys() ^ b.keys())}")
    for name in OTHERS:
        if a[name] != b[name]:
            sys.exit(f"{name} is not what it was")
    changed = [name for name in a if name not in OTHERS and a[name][1] != b[name][1]]
    if changed:
        sys.exit(f"other shapes: {changed}")


def edit(path, name, tensor):
    path = os.path.join(path, "model.safetensors")
    tensors = read(path)
    if tensor:
        tensors[name] = tensor
    else:
        del tensors[name]
    write(path, tensors)


if __name__ == "__main__":
    word, args = sys.argv[1], sys.argv[2:]
    if word == "sees":
        sees(args[0], args[1], int(args[2]))
    elif word == "others":
        others(*args)
    else:
        edit(args[0], args[1], ("F32", [1], bytes(4)) if word == "add" else None)
