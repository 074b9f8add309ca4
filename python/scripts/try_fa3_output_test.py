"""Runs the cases of FlashAttention-3's own test of outputs and gradients with `warpsmith.attention`. Needs a GPU.

    python try_fa3_output_test.py [--dtype fp16 ...] [--head-dim 64 ...] [--limit SECONDS] [--builds DIR]

The cases and the rule are those of `test_flash_attn_output` in hopper/test_flash_attn.py of Dao-AILab/flash-attention (commit
0251105a), written again from its parameters: 3 types, 3 ways to share heads, 4 head dimensions, with and without a causal mask,
20 pairs of lengths: 1,440 cases. The other parameters there are features that other functions have (windows, soft caps, chunks,
a second product for the queries, values of another width, columns of V in memory order); here they are off.

The rule: the largest error of an element is at most twice that of an implementation in PyTorch whose numbers have the type of
the inputs (in FP8: bf16 with weights in E4M3), plus twice the error of adding 0.3 to the right output and subtracting it. The
right output is computed in fp32 and rounded to the type. In fp16 and bf16 the gradients of Q, K and V have the same rule.
FP8 tensors have scales per batch entry and head of keys; their output is bf16.

With --builds the outputs are those of compiled settings of `hopper`, without the package and without gradients: a folder for each
setting, as for time_forward.py, with the axis fp8_output=bf16 in FP8. A case is run with every setting of its type and its head
dimension; the worst share counts.
"""

import argparse
import itertools
import math
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "e4m3": torch.float8_e4m3fn}
HEAD_DIMS = [64, 96, 128, 256]
HEADS = 6
KV_HEADS = {"mha": 6, "mqa": 1, "gqa": 2}
LENGTHS = [
    (1, 1), (64, 128), (128, 192), (256, 256), (239, 1), (799, 3), (113, 203), (113, 128), (128, 217), (113, 211),
    (108, 256), (256, 512), (384, 256), (640, 128), (512, 256), (1024, 1024), (1023, 1024), (1024, 1023), (4096, 4096),
    (4224, 4224),
]  # fmt: skip


def reference(tensors, causal, scales, upcast, weights_type=None):
    """Attention in fp32, rounded at the end; or without `upcast` in the type of the tensors, with another order of the scale."""
    dtype, group = tensors[0].dtype, tensors[0].shape[2] // tensors[1].shape[2]
    if upcast:
        tensors = [tensor.float() for tensor in tensors]
    q, k, v = tensors
    if scales is not None:
        of_q, of_k, of_v = (scale[:, None, :, None] for scale in scales)
        q = (q.float() * of_q.repeat_interleave(group, 2)).to(q.dtype)
        k, v = (k.float() * of_k).to(k.dtype), (v.float() * of_v).to(v.dtype)
    k, v = (tensor.repeat_interleave(group, 2) for tensor in (k, v))
    factor = 1.0 / math.sqrt(q.shape[-1])
    q, k = (q * factor, k) if upcast else (q, k * factor)
    scores = torch.einsum("bthd,bshd->bhts", q, k)
    hidden = None
    if causal:
        queries, keys = scores.shape[-2:]
        rows = torch.arange(queries, device=q.device)[:, None]
        hidden = torch.arange(keys, device=q.device) > rows + keys - queries
        scores.masked_fill_(hidden, -torch.inf)
    weights = torch.softmax(scores, -1).to(v.dtype)
    if hidden is not None:
        weights = weights.masked_fill(hidden.all(-1, keepdim=True), 0.0)
    if weights_type is not None:
        weights = weights.to(weights_type).to(weights.dtype)
    return torch.einsum("bhts,bshd->bthd", weights, v).to(dtype)


def largest(tensor):
    return tensor.abs().max().item()


def share(got, right, usual):
    """The largest error divided by the limit."""
    limit = 2 * largest(usual - right) + 2 * largest(right + 0.3 - 0.3 - right)
    error = largest(got - right)
    if math.isnan(error):
        return math.inf
    return error / limit if limit > 0 else (0.0 if error == 0 else math.inf)


def by_package(own, causal, scales):
    import warpsmith

    options = {} if scales is None else {"out_dtype": torch.bfloat16}
    options |= dict(zip(("q_scale", "k_scale", "v_scale"), scales or []))
    return warpsmith.attention(*own, causal, layout="bshd", **options)


def by_setting(setting, own, causal, scales):
    q, k, v = (tensor.detach().transpose(1, 2) for tensor in own)
    problem = SimpleNamespace(
        q=q, k=k, v=v, batch=q.shape[0], heads=q.shape[1], kv_heads=k.shape[1], seq_q=q.shape[2], seq_k=k.shape[2],
        head_dim=q.shape[3], causal=causal, scale=q.shape[3] ** -0.5, fp8=scales is not None, scales=scales,
        out_type=q.dtype if scales is None else torch.bfloat16,
    )  # fmt: skip
    return setting.call(problem)().transpose(1, 2)


def run(settings, dtype_name, heads, causal, head_dim, lengths):
    """The shares of the limits that the output and the gradients reach."""
    dtype, (seq_q, seq_k) = DTYPES[dtype_name], lengths
    fp8 = dtype == torch.float8_e4m3fn
    usual_type = torch.bfloat16 if fp8 else dtype
    torch.manual_seed(0)
    batch = 9 if seq_k <= 2048 else 2
    shapes = [(batch, seq_q, HEADS, head_dim)] + 2 * [(batch, seq_k, KV_HEADS[heads], head_dim)]
    drawn = [torch.randn(shape, device="cuda", dtype=usual_type).to(dtype).to(usual_type) for shape in shapes]
    scales = [torch.rand(batch, KV_HEADS[heads], device="cuda") * 2 for _ in range(3)] if fp8 else None
    has_gradients = not fp8 and settings is None
    given = [tensor.requires_grad_(has_gradients) for tensor in drawn]
    own = [tensor.detach().to(dtype).requires_grad_(has_gradients) for tensor in drawn]
    right = reference(given, causal, scales, True)
    usual = reference(given, causal, scales, False, dtype if fp8 else None)
    of_kernels = None
    if fp8:
        # Ours has a scale per head of queries.
        of_kernels = [scales[0].repeat_interleave(HEADS // KV_HEADS[heads], 1).contiguous(), *scales[1:]]
    if settings is not None:
        suitable = [each for each in settings if (each.dtype, each.head_dim) == (dtype_name, head_dim)]
        return {each.name: share(by_setting(each, own, causal, of_kernels), right, usual) for each in suitable}
    out = by_package(own, causal, of_kernels)
    shares = {"output": share(out, right, usual)}
    if has_gradients:
        g = torch.randn_like(out)
        gradients = [torch.autograd.grad(of, to, g) for of, to in ((out, own), (right, given), (usual, given))]
        for name, got, right_one, usual_one in zip("QKV", *gradients):
            shares[f"d{name}"] = share(got, right_one, usual_one)
    return shares


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--head-dim", action="append", type=int, choices=HEAD_DIMS)
    parser.add_argument("--limit", type=float, help="seconds after which no other case is started")
    parser.add_argument("--builds", type=Path, help="compiled settings that are tried instead of the package")
    options = parser.parse_args()
    settings = None
    if options.builds:
        from time_forward import Setting

        torch.zeros(1, device="cuda")  # makes the context
        settings = [Setting(cubin.parent) for cubin in sorted(options.builds.rglob("*.cubin"))]
    started, passed, failed, worst = time.monotonic(), 0, 0, {}
    dtypes, head_dims = options.dtype or DTYPES, options.head_dim or HEAD_DIMS
    cases = list(itertools.product(dtypes, KV_HEADS, (False, True), head_dims, LENGTHS))
    for number, case in enumerate(cases):
        if options.limit and time.monotonic() - started > options.limit:
            print(f"stopped after {number} of {len(cases)} cases")
            break
        try:
            shares = run(settings, *case)
            if not shares:
                raise ValueError("no setting has this type and head dimension")
        except Exception as error:  # noqa: BLE001: the other cases still run
            shares = {f"{type(error).__name__}: {str(error)[:200]}": math.inf}
        for name, value in shares.items():
            kind = f"{case[0]} {name}" if math.isfinite(value) else f"{case[0]} error"
            worst[kind] = max(worst.get(kind, (0.0,)), (value, case))
        wrong = {name: round(value, 3) for name, value in shares.items() if not value <= 1.0}
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong:
            print(f"FAILED {case}: {wrong}", flush=True)
    for kind, (value, case) in sorted(worst.items()):
        print(f"{kind:14s} at most {value:.3f} of the limit, {case}")
    print(f"{passed} passed, {failed} failed, {len(cases) - passed - failed} not run")
    sys.exit(1 if failed or passed < len(cases) else 0)


if __name__ == "__main__":
    main()
