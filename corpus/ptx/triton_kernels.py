"""Kernels in Triton, with the launches and inputs of their cases."""

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import triton_reductions
from case import Case, null, read, scalar, scratch, write


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, values / tl.sum(values, axis=0), mask=at < n)


@triton.jit
def matmul(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = k[None, :] + start < K
        top = k[:, None] + start < K
        at_a = a + m[:, None] * K + start + k[None, :]
        at_b = b + (start + k[:, None]) * N + n[None, :]
        tile_a = tl.load(at_a, mask=(m[:, None] < M) & left, other=0.0)
        tile_b = tl.load(at_b, mask=top & (n[None, :] < N), other=0.0)
        sums = tl.dot(tile_a, tile_b, sums)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out + m[:, None] * N + n[None, :], sums.to(tl.float16), mask=inside)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row * n + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / n
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w = tl.load(weight + at, mask=inside)
    b = tl.load(bias + at, mask=inside)
    tl.store(out + row * n + at, centred * scale * w + b, mask=inside)
    tl.store(mean_out + row, mean)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + at, mask=inside)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, values / (1 - p), 0.0), mask=inside)


@triton.jit
def attention(q, k, v, out, scale, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * S * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    rows = tl.load(q + head + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    sums = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        keys = tl.load(k + head + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.dot(rows, keys) * scale
        scores = tl.where(n[None, :] < S, scores, -float("inf"))
        new = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - new)
        weights = tl.exp2(scores - new[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        values = tl.load(v + head + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        sums = tl.dot(weights.to(tl.float16), values, sums * shrink[:, None])
        highest = new
    sums = sums / total[:, None]
    tl.store(out + head + m[:, None] * D + d[None, :], sums.to(tl.float16), mask=m[:, None] < S)


@triton.jit
def matmul_descriptors(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    from_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    from_b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    to_out = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(from_a.load([m, k]), from_b.load([k, n]), sums)
    to_out.store([m, n], sums.to(tl.float16))


LOG2_E = 1.4426950408889634


def philox(seed, offsets):
    """The first of the four numbers of Philox 4x32 with ten rounds, as `tl.rand` uses it."""
    c = [offsets.astype(np.uint64)] + [np.zeros_like(offsets, dtype=np.uint64) for _ in range(3)]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]),
            b & low,
            (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]),
            a & low,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0].astype(np.uint32)


def uniform(bits):
    """Numbers in [0, 1) from random bits, as `tl.rand` makes them."""
    signed = bits.view(np.int32)
    signed = np.where(signed < 0, -signed - 1, signed)
    return signed.astype(np.float32) * np.float32(4.6566127342e-10)


def products(random, m, n, k):
    a = random.standard_normal((m, k)).astype(np.float16)
    b = random.standard_normal((k, n)).astype(np.float16)
    return a, b, (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)


def attend(q, k, v, scale):
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    scores = np.einsum("hsd,htd->hst", q, k) * scale
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    return np.einsum("hst,htd->hsd", weights, v).astype(np.float16)


def compile_for(target, function, signature, constants, warps=4, stages=3):
    """Compiles a kernel without a GPU. Returns the PTX and its metadata."""
    signature = signature | {name: "constexpr" for name in constants}
    source = ASTSource(fn=function, signature=signature, constexprs=constants)
    options = {"num_warps": warps, "num_stages": stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
    return compiled.asm["ptx"], compiled.metadata


def case(name, target, function, grid, arguments, constants, **options):
    """`arguments` are (name, type, argument) in the order of the function's parameters."""
    signature = {label: kind for label, kind, _ in arguments}
    ptx, metadata = compile_for(target, function, signature, constants, **options)
    blocks = int(np.prod(grid))
    scratches = []
    for size in (metadata.global_scratch_size, metadata.profile_scratch_size):
        scratches.append(scratch(size * blocks * metadata.num_ctas) if size else null())
    return Case(
        name=f"triton_{name}_sm{target}",
        compiler=f"triton {triton.__version__}",
        ptx=ptx,
        kernel=metadata.name,
        grid=grid,
        block=(32 * metadata.num_warps,),
        shared=metadata.shared,
        arguments=[argument for _, _, argument in arguments] + scratches,
    )


def vector_add_case(target, random):
    n = 1000
    x, y = random.standard_normal((2, n)).astype(np.float32)
    arguments = [
        ("x", "*fp32", read(x)),
        ("y", "*fp32", read(y)),
        ("out", "*fp32", write(x + y)),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case("vector_add", target, vector_add, (4,), arguments, {"BLOCK": 256})


def softmax_case(target, random):
    rows, n = 6, 200
    x = random.standard_normal((rows, n)).astype(np.float32) * 3
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    arguments = [
        ("x", "*fp32", read(x)),
        ("out", "*fp32", write((e / e.sum(axis=1, keepdims=True)).astype(np.float32), 1e-5, 1e-8)),
        ("stride", "i32", scalar(n, "int32")),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case("softmax", target, softmax, (rows,), arguments, {"BLOCK": 256})


def matmul_case(name, target, random, sizes, warps):
    m, n, k = sizes
    a, b, out = products(random, m, n, k)
    arguments = [
        ("a", "*fp16", read(a)),
        ("b", "*fp16", read(b)),
        ("out", "*fp16", write(out, 2e-3, 2e-3)),
        ("M", "i32", scalar(m, "int32")),
        ("N", "i32", scalar(n, "int32")),
        ("K", "i32", scalar(k, "int32")),
    ]
    constants = {"BM": 64, "BN": 32, "BK": 32}
    grid = (-(-m // 64), -(-n // 32))
    return case(name, target, matmul, grid, arguments, constants, warps=warps)


def matmul_descriptors_case(target, random):
    m, n, k = 100, 72, 96
    a, b, out = products(random, m, n, k)
    arguments = [
        ("a", "*fp16", read(a)),
        ("b", "*fp16", read(b)),
        ("out", "*fp16", write(out, 2e-3, 2e-3)),
        ("M", "i32", scalar(m, "int32")),
        ("N", "i32", scalar(n, "int32")),
        ("K", "i32", scalar(k, "int32")),
    ]
    constants = {"BM": 64, "BN": 64, "BK": 32}
    grid = (-(-m // 64), -(-n // 64))
    return case("matmul_descriptors", target, matmul_descriptors, grid, arguments, constants)


def layer_norm_case(target, random):
    rows, n, eps = 5, 200, 1e-5
    x = random.standard_normal((rows, n)).astype(np.float32)
    weight, bias = random.standard_normal((2, n)).astype(np.float32)
    exact = x.astype(np.float64)
    mean = exact.mean(axis=1, keepdims=True)
    out = (exact - mean) / np.sqrt(exact.var(axis=1, keepdims=True) + eps) * weight + bias
    arguments = [
        ("x", "*fp32", read(x)),
        ("weight", "*fp32", read(weight)),
        ("bias", "*fp32", read(bias)),
        ("out", "*fp32", write(out.astype(np.float32), 1e-5, 1e-5)),
        ("mean_out", "*fp32", write(mean.astype(np.float32), 1e-5, 1e-6)),
        ("n", "i32", scalar(n, "int32")),
        ("eps", "fp32", scalar(eps, "float32")),
    ]
    return case("layer_norm", target, layer_norm, (rows,), arguments, {"BLOCK": 256})


def dropout_case(target, random):
    n, p, seed = 1000, 0.5, 123
    x = random.standard_normal(n).astype(np.float32)
    kept = uniform(philox(seed, np.arange(n))) > np.float32(p)
    arguments = [
        ("x", "*fp32", read(x)),
        ("out", "*fp32", write(np.where(kept, x / np.float32(1 - p), 0).astype(np.float32), 1e-6)),
        ("n", "i32", scalar(n, "int32")),
        ("p", "fp32", scalar(p, "float32")),
        ("seed", "i32", scalar(seed, "int32")),
    ]
    return case("dropout", target, dropout, (4,), arguments, {"BLOCK": 256})


def attention_case(name, target, random, length, warps):
    heads, d = 2, 32
    q, k, v = random.standard_normal((3, heads, length, d)).astype(np.float16)
    scale = d**-0.5
    arguments = [
        ("q", "*fp16", read(q)),
        ("k", "*fp16", read(k)),
        ("v", "*fp16", read(v)),
        ("out", "*fp16", write(attend(q, k, v, scale), 4e-3, 2e-3)),
        ("scale", "fp32", scalar(scale * LOG2_E, "float32")),
        ("S", "i32", scalar(length, "int32")),
    ]
    constants = {"D": d, "BM": 64, "BN": 32}
    grid = (-(-length // 64), heads)
    return case(name, target, attention, grid, arguments, constants, warps=warps)


def cases(random):
    """The six kinds of kernels, and reductions. Kernels with two warps use `mma`; with four, sm_90 uses `wgmma`."""
    for target in (80, 89, 90):
        yield vector_add_case(target, random)
        yield softmax_case(target, random)
        yield layer_norm_case(target, random)
        yield dropout_case(target, random)
        for warps in (2, 4):
            yield matmul_case(f"matmul_warps{warps}", target, random, (100, 72, 80), warps)
            yield attention_case(f"attention_warps{warps}", target, random, 100, warps)
    yield matmul_descriptors_case(90, random)
    yield from triton_reductions.cases(case, random)
