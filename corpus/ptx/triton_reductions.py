"""Kernels in Triton whose lanes or warps store the same values: reductions, scans, attention with LSE, norms.

A result of a reduction is in several lanes and often in several warps, and Triton lets all of them store it. So these
kernels test that equal stores are not taken for races.
"""

import numpy as np
import triton
import triton.language as tl

from case import read, scalar, update, write


@triton.jit
def reduce_tile(x, sums, highest, N, AXIS: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r = tl.arange(0, R)
    c = tl.arange(0, C)
    base = tl.program_id(0) * R * C
    tile = tl.load(x + base + r[:, None] * C + c[None, :])
    kept: tl.constexpr = C if AXIS == 0 else R
    at = tl.program_id(0) * kept + tl.arange(0, kept)
    tl.store(sums + at, tl.sum(tile, axis=AXIS))
    tl.store(highest + at, tl.max(tile, axis=AXIS))


@triton.jit
def argmax_tile(x, out, AXIS: tl.constexpr, LEFT: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r = tl.arange(0, R)
    c = tl.arange(0, C)
    tile = tl.load(x + r[:, None] * C + c[None, :])
    kept: tl.constexpr = C if AXIS == 0 else R
    tl.store(out + tl.arange(0, kept), tl.argmax(tile, axis=AXIS, tie_break_left=LEFT))


@triton.jit
def argmin_rows(x, out, lowest, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=float("inf"))
    low, where = tl.min(values, axis=0, return_indices=True)
    tl.store(out + row, where)
    tl.store(lowest + row, low)


@triton.jit
def join_moments(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    delta = mean_b - mean_a
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, count_b / count)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def welford_rows(x, mean_out, var_out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros((BLOCK,), tl.float32)
    m2 = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < n
        value = tl.load(x + row * n + at, mask=inside, other=0.0)
        count_new = count + inside.to(tl.float32)
        delta = value - mean
        mean_new = tl.where(inside, mean + delta / tl.maximum(count_new, 1.0), mean)
        m2 = tl.where(inside, m2 + delta * (value - mean_new), m2)
        mean = mean_new
        count = count_new
    mean, m2, count = tl.reduce((mean, m2, count), 0, join_moments)
    tl.store(mean_out + row, mean)
    tl.store(var_out + row, m2 / count)


@triton.jit
def scan_tile(x, out, AXIS: tl.constexpr, BACK: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=AXIS, reverse=BACK))


@triton.jit
def join_linear(a, b, c, d):
    return a * c, c * b + d


@triton.jit
def linear_recurrence(a, x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    factors = tl.load(a + row * n + at, mask=at < n, other=1.0)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0)
    _, states = tl.associative_scan((factors, values), 0, join_linear)
    tl.store(out + row * n + at, states, mask=at < n)


@triton.jit
def attention_lse(q, k, v, out, lse, scale, S, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1)
    base = head * S * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    rows = tl.load(q + base + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    highest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    sums = tl.zeros((BM, D), dtype=tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BM, S) if CAUSAL else S
    for start in range(0, end, BN):
        n = start + tl.arange(0, BN)
        keys = tl.load(k + base + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.dot(rows, keys) * scale
        seen = n[None, :] < S
        if CAUSAL:
            seen = seen & (n[None, :] <= m[:, None])
        scores = tl.where(seen, scores, -float("inf"))
        new = tl.maximum(highest, tl.max(scores, axis=1))
        shrink = tl.exp2(highest - new)
        weights = tl.exp2(scores - new[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        values = tl.load(v + base + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        sums = tl.dot(weights.to(tl.float16), values, sums * shrink[:, None])
        highest = new
    tl.store(lse + head * S + m, highest + tl.log2(total), mask=m < S)
    sums = sums / total[:, None]
    tl.store(out + base + m[:, None] * D + d[None, :], sums.to(tl.float16), mask=m[:, None] < S)


@triton.jit
def layer_norm_backward(dx, dy, dw, db, x, w, mean, rstd, locks, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row * n + at, mask=inside, other=0).to(tl.float32)
    grads = tl.load(dy + row * n + at, mask=inside, other=0).to(tl.float32)
    weights = tl.load(w + at, mask=inside).to(tl.float32)
    scale = tl.load(rstd + row)
    normal = tl.where(inside, (values - tl.load(mean + row)) * scale, 0.0)
    weighted = tl.where(inside, weights * grads, 0.0)
    c1 = tl.sum(normal * weighted, axis=0) / n
    c2 = tl.sum(weighted, axis=0) / n
    tl.store(dx + row * n + at, (weighted - (normal * c1 + c2)) * scale, mask=inside)
    group = row % GROUP
    lock = locks + group
    count = locks + GROUP + group
    part_w = grads * normal
    part_b = grads
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw + group * n + at, mask=inside)
        part_b += tl.load(db + group * n + at, mask=inside)
    tl.store(dw + group * n + at, part_w, mask=inside)
    tl.store(db + group * n + at, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def matmul_split(a, b, out, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK * SPLIT):
        tile_a = tl.load(a + m[:, None] * K + start + k[None, :], mask=(m[:, None] < M) & (start + k[None, :] < K), other=0.0)
        tile_b = tl.load(b + (start + k[:, None]) * N + n[None, :], mask=(start + k[:, None] < K) & (n[None, :] < N), other=0.0)
        sums = tl.dot(tile_a, tile_b, sums)
    tl.atomic_add(out + m[:, None] * N + n[None, :], sums, mask=(m[:, None] < M) & (n[None, :] < N), sem="relaxed")


@triton.jit
def matmul_specialised(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    from_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    from_b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        sums = tl.dot(from_a.load([m, k]), from_b.load([k, n]), sums)
    at_m = m + tl.arange(0, BM)
    at_n = n + tl.arange(0, BN)
    inside = (at_m[:, None] < M) & (at_n[None, :] < N)
    tl.store(out + at_m[:, None] * N + at_n[None, :], sums.to(tl.float16), mask=inside)


@triton.jit
def matmul_persistent(a, b, out, M, N, K, PROGRAMS: tl.constexpr, SPECIALISED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    from_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    from_b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    to_out = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, PROGRAMS, flatten=False, warp_specialize=SPECIALISED):
        m = tile // across * BM
        n = tile % across * BN
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            sums = tl.dot(from_a.load([m, k]), from_b.load([k, n]), sums)
        to_out.store([m, n], sums.to(tl.float16))


@triton.jit
def sort_rows(x, out, DOWN: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DOWN))


@triton.jit
def largest(x, out, C: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row * K + tl.arange(0, K), tl.topk(tl.load(x + row * C + tl.arange(0, C)), K))


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS, mask=at < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def cross_entropy(logits, labels, losses, grads, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels + row)
    highest = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * n + at, mask=at < n, other=-float("inf"))
        new = tl.maximum(highest, tl.max(values, axis=0))
        total = total * tl.exp(highest - new) + tl.sum(tl.exp(values - new), axis=0)
        highest = new
    tl.store(losses + row, highest + tl.log(total) - tl.load(logits + row * n + label))
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * n + at, mask=at < n, other=-float("inf"))
        share = tl.exp(values - highest) / total
        tl.store(grads + row * n + at, tl.where(at == label, share - 1.0, share), mask=at < n)


@triton.jit
def gather_rows(x, index, out, R: tl.constexpr, C: tl.constexpr, K: tl.constexpr):
    r = tl.arange(0, R)
    tile = tl.load(x + r[:, None] * C + tl.arange(0, C)[None, :])
    where = tl.load(index + r[:, None] * K + tl.arange(0, K)[None, :])
    tl.store(out + r[:, None] * K + tl.arange(0, K)[None, :], tl.gather(tile, where, axis=1))


@triton.jit
def matvec(a, x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    sums = tl.zeros((BM,), tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        tile = tl.load(a + m[:, None] * N + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N), other=0.0)
        sums += tl.sum(tile * tl.load(x + n, mask=n < N, other=0.0)[None, :], axis=1)
    tl.store(out + m, sums, mask=m < M)


LOG2_E = 1.4426950408889634


def tiles_case(case, name, target, random, axis, shape, warps):
    programs, (r, c) = 2, shape
    x = random.standard_normal((programs, r, c)).astype(np.float32)
    exact = x.astype(np.float64)
    arguments = [
        ("x", "*fp32", read(x)),
        ("sums", "*fp32", write(exact.sum(axis=axis + 1).astype(np.float32), 1e-5, 1e-5)),
        ("highest", "*fp32", write(x.max(axis=axis + 1))),
        ("N", "i32", scalar(c, "int32")),
    ]
    return case(name, target, reduce_tile, (programs,), arguments, {"AXIS": axis, "R": r, "C": c}, warps=warps)


def argmax_case(case, name, target, random, axis, left, shape, warps, ties=False):
    r, c = shape
    x = random.integers(0, 9, (r, c)) if ties else random.permutation(r * c).reshape(r, c)
    x = x.astype(np.float32)
    arguments = [
        ("x", "*fp32", read(x)),
        ("out", "*i32", write(x.argmax(axis=axis).astype(np.int32))),
    ]
    constants = {"AXIS": axis, "LEFT": left, "R": r, "C": c}
    return case(name, target, argmax_tile, (1,), arguments, constants, warps=warps)


def argmin_case(case, target, random):
    rows, n = 3, 300
    x = random.standard_normal((rows, n)).astype(np.float32)
    arguments = [
        ("x", "*fp32", read(x)),
        ("out", "*i32", write(x.argmin(axis=1).astype(np.int32))),
        ("lowest", "*fp32", write(x.min(axis=1))),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case("argmin_rows", target, argmin_rows, (rows,), arguments, {"BLOCK": 512})


def welford_case(case, target, random):
    rows, n = 3, 300
    x = random.standard_normal((rows, n)).astype(np.float32)
    exact = x.astype(np.float64)
    arguments = [
        ("x", "*fp32", read(x)),
        ("mean_out", "*fp32", write(exact.mean(axis=1).astype(np.float32), 1e-4, 1e-5)),
        ("var_out", "*fp32", write(exact.var(axis=1).astype(np.float32), 1e-4, 1e-5)),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case("welford", target, welford_rows, (rows,), arguments, {"BLOCK": 256})


def scan_case(case, name, target, random, axis, back, shape, warps):
    r, c = shape
    x = random.standard_normal((r, c)).astype(np.float32)
    exact = x.astype(np.float64)
    sums = np.flip(np.flip(exact, axis).cumsum(axis=axis), axis) if back else exact.cumsum(axis=axis)
    arguments = [("x", "*fp32", read(x)), ("out", "*fp32", write(sums.astype(np.float32), 1e-4, 1e-4))]
    constants = {"AXIS": axis, "BACK": back, "R": r, "C": c}
    return case(name, target, scan_tile, (1,), arguments, constants, warps=warps)


def recurrence_case(case, target, random):
    rows, n = 2, 200
    a = random.uniform(0.5, 1, (rows, n)).astype(np.float32)
    x = random.standard_normal((rows, n)).astype(np.float32)
    out, state = np.zeros((rows, n)), np.zeros(rows)
    for i in range(n):
        state = state * a[:, i].astype(np.float64) + x[:, i]
        out[:, i] = state
    arguments = [
        ("a", "*fp32", read(a)),
        ("x", "*fp32", read(x)),
        ("out", "*fp32", write(out.astype(np.float32), 1e-4, 1e-4)),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case("linear_recurrence", target, linear_recurrence, (rows,), arguments, {"BLOCK": 256})


def attention_lse_case(case, name, target, random, length, causal, warps, tile=(64, 32)):
    heads, d = 2, 32
    q, k, v = random.standard_normal((3, heads, length, d)).astype(np.float16)
    scale = d**-0.5
    scores = np.einsum("hsd,htd->hst", q.astype(np.float64), k.astype(np.float64)) * scale
    if causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    highest = scores.max(axis=2, keepdims=True)
    weights = np.exp(scores - highest)
    total = weights.sum(axis=2, keepdims=True)
    out = np.einsum("hst,htd->hsd", weights / total, v.astype(np.float64)).astype(np.float16)
    lse = ((highest + np.log(total)) * LOG2_E)[..., 0].astype(np.float32)
    arguments = [
        ("q", "*fp16", read(q)),
        ("k", "*fp16", read(k)),
        ("v", "*fp16", read(v)),
        ("out", "*fp16", write(out, 4e-3, 2e-3)),
        ("lse", "*fp32", write(lse, 1e-3, 1e-3)),
        ("scale", "fp32", scalar(scale * LOG2_E, "float32")),
        ("S", "i32", scalar(length, "int32")),
    ]
    constants = {"CAUSAL": causal, "D": d, "BM": tile[0], "BN": tile[1]}
    grid = (-(-length // tile[0]), heads)
    return case(name, target, attention_lse, grid, arguments, constants, warps=warps)


def layer_norm_backward_case(case, target, random):
    rows, n, group = 6, 200, 2
    x, dy = random.standard_normal((2, rows, n)).astype(np.float32)
    w = random.standard_normal(n).astype(np.float32)
    ex, edy, ew = (t.astype(np.float64) for t in (x, dy, w))
    mean, rstd = ex.mean(axis=1), 1 / np.sqrt(ex.var(axis=1) + 1e-5)
    normal = (ex - mean[:, None]) * rstd[:, None]
    weighted = ew * edy
    c1, c2 = (normal * weighted).mean(axis=1), weighted.mean(axis=1)
    dx = (weighted - normal * c1[:, None] - c2[:, None]) * rstd[:, None]
    dw = np.stack([(edy * normal)[g::group].sum(axis=0) for g in range(group)])
    db = np.stack([edy[g::group].sum(axis=0) for g in range(group)])
    arguments = [
        ("dx", "*fp32", write(dx.astype(np.float32), 1e-4, 1e-4)),
        ("dy", "*fp32", read(dy)),
        ("dw", "*fp32", write(dw.astype(np.float32), 1e-4, 1e-4)),
        ("db", "*fp32", write(db.astype(np.float32), 1e-4, 1e-4)),
        ("x", "*fp32", read(x)),
        ("w", "*fp32", read(w)),
        ("mean", "*fp32", read(mean.astype(np.float32))),
        ("rstd", "*fp32", read(rstd.astype(np.float32))),
        ("locks", "*i32", update(np.zeros(2 * group, np.int32), np.array([0] * group + [1] * group, np.int32))),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case("layer_norm_backward", target, layer_norm_backward, (rows,), arguments, {"GROUP": group, "BLOCK": 256})


def products(random, m, n, k):
    a = random.standard_normal((m, k)).astype(np.float16)
    b = random.standard_normal((k, n)).astype(np.float16)
    return a, b, a.astype(np.float64) @ b.astype(np.float64)


def matmul_arguments(a, b, out, kind, sizes):
    pairs = zip("MNK", sizes, strict=True)
    return [("a", "*fp16", read(a)), ("b", "*fp16", read(b)), ("out", kind, out)] + [
        (name, "i32", scalar(size, "int32")) for name, size in pairs
    ]


def split_case(case, target, random):
    m, n, k = sizes = (60, 40, 160)
    a, b, out = products(random, m, n, k)
    exact = out.astype(np.float32)
    arguments = matmul_arguments(a, b, update(np.zeros_like(exact), exact, 1e-3, 1e-3), "*fp32", sizes)
    constants = {"SPLIT": 2, "BM": 32, "BN": 32, "BK": 32}
    return case("matmul_split", target, matmul_split, (2, 2, 2), arguments, constants)


def specialised_case(case, target, random, stages):
    m, n, k = sizes = (100, 72, 160)
    a, b, out = products(random, m, n, k)
    arguments = matmul_arguments(a, b, write(out.astype(np.float16), 2e-3, 2e-3), "*fp16", sizes)
    constants = {"BM": 64, "BN": 64, "BK": 32}
    name = f"matmul_specialised_{stages}stages"
    return case(name, target, matmul_specialised, (2, 2), arguments, constants, stages=stages)


def persistent_case(case, name, target, random, specialised, block_m=64):
    m, n, k = sizes = (300, 136, 96)
    a, b, out = products(random, m, n, k)
    arguments = matmul_arguments(a, b, write(out.astype(np.float16), 2e-3, 2e-3), "*fp16", sizes)
    constants = {"PROGRAMS": 3, "SPECIALISED": specialised, "BM": block_m, "BN": 64, "BK": 32}
    return case(name, target, matmul_persistent, (3,), arguments, constants)


def sort_case(case, target, random, down):
    r, c = 4, 64
    x = random.standard_normal((r, c)).astype(np.float32)
    out = np.sort(x, axis=1)
    arguments = [("x", "*fp32", read(x)), ("out", "*fp32", write(out[:, ::-1] if down else out))]
    name = "sort_down" if down else "sort_up"
    return case(name, target, sort_rows, (1,), arguments, {"DOWN": down, "R": r, "C": c})


def largest_case(case, target, random):
    """Tiles that ldmatrix reads with repeated rows."""
    r, c, k = 4, 128, 8
    x = random.standard_normal((r, c)).astype(np.float32)
    arguments = [("x", "*fp32", read(x)), ("out", "*fp32", write(-np.sort(-x, axis=1)[:, :k]))]
    return case("largest", target, largest, (r,), arguments, {"C": c, "K": k})


def histogram_case(case, target, random):
    n, bins = 1000, 64
    x = random.integers(0, bins, n).astype(np.int32)
    counts = np.bincount(x, minlength=bins).astype(np.int32)
    arguments = [
        ("x", "*i32", read(x)),
        ("out", "*i32", update(np.zeros_like(counts), counts)),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case("histogram", target, histogram, (2,), arguments, {"BINS": bins, "BLOCK": 512})


def cross_entropy_case(case, target, random, warps):
    rows, n = 3, 300
    x = random.standard_normal((rows, n)).astype(np.float32)
    labels = random.integers(0, n, rows).astype(np.int32)
    e = np.exp(x.astype(np.float64))
    total = e.sum(axis=1, keepdims=True)
    losses = np.log(total[:, 0]) - x[np.arange(rows), labels]
    grads = e / total
    grads[np.arange(rows), labels] -= 1
    arguments = [
        ("logits", "*fp32", read(x)),
        ("labels", "*i32", read(labels)),
        ("losses", "*fp32", write(losses.astype(np.float32), 1e-4, 1e-4)),
        ("grads", "*fp32", write(grads.astype(np.float32), 1e-4, 1e-5)),
        ("n", "i32", scalar(n, "int32")),
    ]
    return case(f"cross_entropy_warps{warps}", target, cross_entropy, (rows,), arguments, {"BLOCK": 128}, warps=warps)


def gather_case(case, target, random):
    r, c, k = 16, 32, 64
    x = random.standard_normal((r, c)).astype(np.float32)
    index = random.integers(0, c, (r, k)).astype(np.int32)
    arguments = [
        ("x", "*fp32", read(x)),
        ("index", "*i32", read(index)),
        ("out", "*fp32", write(np.take_along_axis(x, index, axis=1))),
    ]
    return case("gather", target, gather_rows, (1,), arguments, {"R": r, "C": c, "K": k})


def matvec_case(case, target, random, warps):
    m, n = 50, 90
    a = random.standard_normal((m, n)).astype(np.float32)
    x = random.standard_normal(n).astype(np.float32)
    out = (a.astype(np.float64) @ x).astype(np.float32)
    arguments = [
        ("a", "*fp32", read(a)),
        ("x", "*fp32", read(x)),
        ("out", "*fp32", write(out, 1e-4, 1e-4)),
        ("M", "i32", scalar(m, "int32")),
        ("N", "i32", scalar(n, "int32")),
    ]
    return case(f"matvec_warps{warps}", target, matvec, (2,), arguments, {"BM": 32, "BN": 32}, warps=warps)


def cases(case, random, every=False):
    """`case` compiles a kernel. `every`: more shapes and warps than the tests need."""
    for target in (80, 89, 90):
        for axis in (0, 1):
            shapes = [((32, 32), 4)] + ([((64, 16), 4), ((16, 64), 2), ((32, 32), 1), ((8, 8), 4), ((128, 32), 8)] if every else [])
            for (r, c), warps in shapes:
                yield tiles_case(case, f"reduce{axis}_{r}x{c}_warps{warps}", target, random, axis, (r, c), warps)
                name = f"argmax{axis}_{r}x{c}_warps{warps}"
                yield argmax_case(case, name, target, random, axis, True, (r, c), warps, ties=True)
                if every:
                    yield argmax_case(case, f"{name}_fast", target, random, axis, False, (r, c), warps)
            yield scan_case(case, f"scan{axis}", target, random, axis, False, (32, 32), 4)
            if every:
                yield scan_case(case, f"scan{axis}_back", target, random, axis, True, (64, 8), 4)
        for warps in (2, 4, 8) if every else (4,):
            for causal in (False, True):
                name = f"attention_lse{'_causal' if causal else ''}_warps{warps}"
                yield attention_lse_case(case, name, target, random, 100, causal, warps)
        yield layer_norm_backward_case(case, target, random)
        yield welford_case(case, target, random)
        if target != 90 and not every:
            continue
        yield argmin_case(case, target, random)
        yield recurrence_case(case, target, random)
        yield split_case(case, target, random)
        for down in (False, True) if every else (True,):
            yield sort_case(case, target, random, down)
        yield histogram_case(case, target, random)
        for warps in (1, 4) if every else (4,):
            yield cross_entropy_case(case, target, random, warps)
            yield matvec_case(case, target, random, warps)
        yield gather_case(case, target, random)
        yield largest_case(case, target, random)
    yield persistent_case(case, "matmul_persistent", 90, random, False)
    if every:
        # Two groups of warps store each tile, which is a warning.
        for stages in (2, 3):
            yield specialised_case(case, 90, random, stages)
        yield persistent_case(case, "matmul_persistent_specialised", 90, random, True)
        yield persistent_case(case, "matmul_persistent_specialised_128", 90, random, True, 128)
