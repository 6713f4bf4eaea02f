#!/usr/bin/env python3
"""study-temper.py STEP TEMPERATURE OUT -- writes the checkpoint STEP to the folder OUT with logits that are
divided by the temperature: the head of the output is, since its product with a hidden state is the logits.

The head must be a float32 tensor of its own.
"""
import array
import json
import pathlib
import shutil
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import program  # noqa: E402

HEAD = "lm_head.weight"


def main():
    if len(sys.argv) != 4:
        raise program.Failure(program.USAGE, "usage: study-temper.py STEP TEMPERATURE OUT")
    step, temperature, out = pathlib.Path(sys.argv[1]), float(sys.argv[2]), pathlib.Path(sys.argv[3])
    weights = bytearray((step / "model.safetensors").read_bytes())
    size, = struct.unpack_from("<Q", weights)
    head = json.loads(weights[8:8 + size]).get(HEAD)
    if head is None or head["dtype"] != "F32":
        raise program.Failure(program.DATA, f"{step}: has no {HEAD} of float32")
    begin, end = (8 + size + offset for offset in head["data_offsets"])
    numbers = array.array("f", weights[begin:end])
    weights[begin:end] = array.array("f", (x / temperature for x in numbers)).tobytes()
    out.mkdir()
    for file in step.iterdir():
        if file.name.startswith(("config", "tokenizer")):
            shutil.copy(file, out)
    (out / "model.safetensors").write_bytes(weights)


program.run("study-temper.py", main)
