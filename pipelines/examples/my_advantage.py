"""Advantages for rf-grpo --advantage stream, between rf-dump --json and rf-cat --json: leave one out.

The advantage of a rollout is its reward minus the mean reward of the other rollouts at its position, so there
must be at least two.  A record without rewards passes unchanged.
"""
import json
import sys


def leave_one_out(rewards):
    """Returns the advantages of the rollouts at one position."""
    return [r - (sum(rewards) - r) / (len(rewards) - 1) for r in rewards]


for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "seq" and "reward" in message["body"]:
        total = message["body"]["reward"]["total"]
        c, n = total["shape"]
        if n < 2:
            sys.exit("my_advantage.py: n must be at least 2 (rf-rollout -n 4)")
        at = [total["data"][i * n:(i + 1) * n] for i in range(c)]
        message["body"].pop("advantage_per_token", None)  # a record has one of the two
        message["body"]["advantage"] = {"dtype": "<f4", "shape": [c, n],
                                        "data": [a for rewards in at for a in leave_one_out(rewards)]}
    print(json.dumps(message))
