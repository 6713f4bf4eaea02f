"""overlap.py -- a reward between two pipes: the share of a rollout's tokens that the text has too.

    rf-rollout -m RUN ... | python3 python/examples/overlap.py | rf-grpo -m RUN ...

In a phase it is REWARD='rf-cat | python3 python/examples/overlap.py'.  A record without rollouts passes
unchanged.
"""
from collections import Counter

import numpy

import rftools


def overlap(rollout, truth):
    """Returns the share of the rollout's tokens that the truth has, each at most as often as the truth."""
    return sum((Counter(rollout) & Counter(truth)).values()) / len(rollout)


def reward(record):
    if "rollout" not in record:
        return record
    tokens = record["rollout"]["tokens"]  # (c, n, k)
    c, n, k = tokens.shape
    length = record["rollout"].get("length", numpy.full((c, n), k))
    total = numpy.zeros((c, n))
    for i, s in enumerate(record["positions"]):
        truth = record["tokens"][s:s + k].tolist()
        for r in range(n):
            total[i, r] = overlap(tokens[i, r, :length[i, r]].tolist(), truth)
    return rftools.replace(record, "reward", {"kind": "overlap", "total": total})


rftools.stage("overlap.py", reward)
