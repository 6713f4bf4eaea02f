#!/usr/bin/env python3
"""sidecars.py CASES -- prints the ids of transformers 5 for tokenizers with files next to tokenizer.json.

The first line of CASES is {"tokenizer": ..}, a tokenizer.json.  Each further line is a case with a name, the
files next to tokenizer.json, texts, and members that replace those of tokenizer.json.  For each case one line
is printed: the name, a tab, and a list of the ids of each text, with the end token if the tokenizer has one.

Exit status 69: transformers 5 is missing.
"""
import json
import os
import sys
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
try:
    import transformers
except ImportError:
    sys.exit(69)
if transformers.__version__.split(".")[0] != "5":
    sys.exit(69)

with open(sys.argv[1], encoding="utf-8") as lines:
    base = json.loads(next(lines))["tokenizer"]
    for line in lines:
        case = json.loads(line)
        with tempfile.TemporaryDirectory() as path:
            files = {"tokenizer.json": {**base, **case.get("tokenizer", {})}, **case["files"]}
            for name, content in files.items():
                with open(os.path.join(path, name), "w", encoding="utf-8") as out:
                    json.dump(content, out)
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        ids = []
        for text in case["texts"]:
            ids.append(tokenizer(text, add_special_tokens=False)["input_ids"])
            if tokenizer.eos_token_id is not None:
                ids[-1].append(tokenizer.eos_token_id)
        print(case["name"], json.dumps(ids, separators=(",", ":")), sep="\t")
