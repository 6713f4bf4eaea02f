#!/usr/bin/env python3
"""tokens-peer.py train|encode TOKENIZER.json FILE.jsonl|FILE.txt... -- the Rust library `tokenizers`, on one
thread, which bench.sh compares with rf-tokenize.

train   makes a tokenizer like that of Qwen, with as many tokens, or as many as the text gives
encode  prints how long loading and encoding take, and how many tokens there are"""
import json
import os
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError as missing:
    sys.exit(f"tokens-peer.py: {missing}")

SIZE, ROUNDS = 151643, 3
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
what, path, files = sys.argv[1], sys.argv[2], sys.argv[3:]
texts = []
for file in files:
    with open(file, encoding="utf-8", errors="replace", newline="") as f:
        texts += [json.loads(line)["text"] for line in f] if file.endswith(".jsonl") else [f.read()]

if what == "train":
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=SIZE, min_frequency=1, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.save(path)
else:
    load = encode = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        t = Tokenizer.from_file(path)
        load = min(load, time.perf_counter() - start)
        start = time.perf_counter()
        count = sum(len(t.encode(text, add_special_tokens=False).ids) for text in texts)
        encode = min(encode, time.perf_counter() - start)
    print(f"load   {load:.3f} s\nencode {encode:.3f} s")
    print(f"text   {sum(len(text.encode()) for text in texts)} bytes {count} tokens {t.get_vocab_size()} ids")
