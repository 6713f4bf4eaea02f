"""leave_one_out.py -- a stage between two pipes: advantages for rf-grpo --advantage stream.

    rf-reward ... | python3 python/examples/leave_one_out.py | rf-grpo -m RUN --advantage stream ...

The advantage of a rollout is its reward minus the mean reward of the other rollouts at its position, so there
must be at least two.  A record without rewards passes unchanged.
"""
import sys

import rftools


def advantage(record):
    if "reward" not in record:
        return record
    total = record["reward"]["total"].astype(float)  # (c, n)
    n = total.shape[1]
    if n < 2:
        sys.exit("leave_one_out.py: n must be at least 2 (rf-rollout -n 4)")
    others = (total.sum(axis=1, keepdims=True) - total) / (n - 1)
    return rftools.replace(record, "advantage", total - others)


rftools.stage("leave_one_out.py", advantage)
