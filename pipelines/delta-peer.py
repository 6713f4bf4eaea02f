#!/usr/bin/env python3
"""delta-peer.py T HEADS KxV [fla | flash_qla] -- the delta rule by flash-linear-attention's Triton kernels,
in bf16, as bench-cuda.sh measures ours; or by FlashQLA's, with the decay that they have it with."""
import sys
import time

T, H = map(int, sys.argv[1:3])
K, V = map(int, (sys.argv[3] if "x" in sys.argv[3] else f"{sys.argv[3]}x{sys.argv[3]}").split("x"))
peer = sys.argv[4] if len(sys.argv) > 4 else "fla"
try:
    import torch
    if peer == "fla":
        from fla.ops.delta_rule import chunk_delta_rule
    else:
        from flash_qla import chunk_gated_delta_rule
except ImportError as missing:
    print(f"delta-peer.py: {missing}", file=sys.stderr)
    sys.exit(69)  # not there; what is there and fails has another status

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
    for i in range(ROUNDS + 1):  # the first compiles
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(TIMES):
            once(back)
        torch.cuda.synchronize()
        if i:
            best = min(best, (time.perf_counter() - t) / TIMES)
    print(f"{name:<20s} {1e3 * best:8.3f} ms")
