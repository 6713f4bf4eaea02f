"""Positions for rf-select --exec --text: the most uncertain tokens that begin a word, at least k apart."""
import json
import sys

COUNT = 8  # positions of a sequence at most


def begins_word(before, token):
    return token.strip() and (token[0].isspace() or before[-1:].isspace())


head = json.loads(next(sys.stdin))  # the stream's head: k, the tokenizer, the model, the history
k = head["k"]
for line in sys.stdin:
    record = json.loads(line)
    text, entropy = record["text"], record["body"]["entropy"]["data"]  # entropy[s - 1] is of token s
    words = [s for s in range(1, len(text) - k + 1) if begins_word(text[s - 1], text[s])]
    chosen = []
    for s in sorted(words, key=lambda s: -entropy[s - 1]):
        if len(chosen) < COUNT and all(abs(s - other) >= k for other in chosen):
            chosen.append(s)
    print(json.dumps({"id": record["body"]["id"], "positions": chosen}), flush=True)
