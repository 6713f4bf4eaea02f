#!/usr/bin/env python3
"""delta-peer.py [--warm-up] T HEADS KxV [fla | flash_qla] -- times the delta rule of flash-linear-attention's
Triton kernels, in bf16, as `bench - delta` times those of rf-tools; or of FlashQLA's kernels, with the decay
that they need.  --warm-up: only compiles and tunes them, for the next process."""
import importlib.util
import sys
import time

warm_up = sys.argv[1] == "--warm-up"
words = sys.argv[1 + warm_up:]
T, H = map(int, words[:2])
K, V = map(int, (words[2] if "x" in words[2] else f"{words[2]}x{words[2]}").split("x"))
peer = words[3] if len(words) > 3 else "fla"
for name in peer, "torch":  # before torch is imported, which takes seconds
    if importlib.util.find_spec(name) is None:
        print(f"delta-peer.py: no module named {name}", file=sys.stderr)
        sys.exit(69)  # a package that is installed and fails has another status

import torch
if peer == "fla":
    from fla.ops.delta_rule import chunk_delta_rule
else:
    from flash_qla import chunk_gated_delta_rule

TIMES, ROUNDS = 10, 5
torch.manual_seed(1)


def some(*shape):
    return torch.randn(1, T, H, *shape, device="cuda", dtype=torch.bfloat16)


q, v = some(K).requires_grad_(), some(V).requires_grad_()
k = torch.nn.functional.normalize(some(K), dim=-1).requires_grad_()
beta = some().sigmoid().requires_grad_()
decay = -0.1 * torch.rand(1, T, H, device="cuda")
do = some(V)


def once(back):
    if peer == "fla":
        o, _ = chunk_delta_rule(q, k, v, beta)
    else:
        o, _ = chunk_gated_delta_rule(q=q, k=k, v=v, g=decay, beta=beta, scale=K ** -0.5)
    if back:
        torch.autograd.grad(o, (q, k, v, beta), do)


for name, back in ("delta rule", False), ("delta rule and back", True):
    best = float("inf")
    for i in range(1 if warm_up else ROUNDS + 1):  # the first compiles
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(TIMES):
            once(back)
        torch.cuda.synchronize()
        if i or warm_up:
            best = min(best, (time.perf_counter() - t) / TIMES)
    print(f"{name:<20s} {1e3 * best:8.3f} ms", flush=True)
