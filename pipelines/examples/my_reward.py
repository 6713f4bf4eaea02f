"""A reward for rf-reward --exec --text: how similar a rollout's text is to the text that really follows."""
import difflib
import json
import sys


def reward(prefix, truth, rollout):
    return difflib.SequenceMatcher(None, truth, rollout).ratio()


head = json.loads(next(sys.stdin))  # the stream's head: k, n, the tokenizer, the model, the history
for line in sys.stdin:
    record = json.loads(line)
    total = [[reward(at["prefix"], at["truth"], x) for x in at["rollouts"]] for at in record["text"]]
    print(json.dumps({"id": record["body"]["id"], "total": total}), flush=True)
