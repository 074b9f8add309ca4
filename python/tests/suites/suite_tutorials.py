"""Triton kernels of ten kinds, as projects have them: one file, PyTorch for the right answers, ``cuda`` as the device.

The kinds are those of Triton's tutorials. The suite does not know of the virtual GPU.
"""

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

DEVICE = triton.runtime.driver.active.get_active_torch_device()
IS_HOPPER = torch.cuda.get_device_capability()[0] >= 9


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE, dtype=dtype)


# 1. Elements
@triton.jit
def axpy_kernel(a, x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, a * tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@pytest.mark.parametrize("n", [1, 257, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_axpy(n, dtype):
    x, y = randn(n, dtype=dtype), randn(n, dtype=dtype)
    out = torch.empty_like(x)
    axpy_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](2.0, x, y, out, n, BLOCK=128)
    torch.testing.assert_close(out, (2.0 * x.float() + y.float()).to(dtype))


# 2. Rows, several by each program
@triton.jit
def softmax_kernel(x, out, stride, rows, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    col = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(x + row * stride + col, col < cols, other=-float("inf"))
        weights = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * stride + col, weights / tl.sum(weights, axis=0), col < cols)


@pytest.mark.parametrize("shape", [(37, 781), (3, 1), (8, 128)])
def test_softmax(shape):
    x = randn(*shape)
    out = torch.empty_like(x)
    programs = min(shape[0], torch.cuda.get_device_properties(DEVICE).multi_processor_count, 5)
    softmax_kernel[(programs,)](
        x, out, x.stride(0), *shape, BLOCK=triton.next_power_of_2(shape[1]), STAGES=2, num_warps=4
    )
    torch.testing.assert_close(out, torch.softmax(x, dim=1))


# 3. Products with an activation, autotuned
@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


CONFIGS = [
    triton.Config({"BM": 32, "BN": 32, "BK": 32, "GROUP": 2}, num_stages=2, num_warps=2),
    triton.Config({"BM": 64, "BN": 32, "BK": 32, "GROUP": 4}, num_stages=3, num_warps=4),
]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k"])
@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, am, ak, bk, bn, cm, cn,
    ACTIVATION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    across, down = tl.cdiv(n, BN), tl.cdiv(m, BM)
    band = tile // (GROUP * across)
    height = min(down - band * GROUP, GROUP)
    row = band * GROUP + tile % (GROUP * across) % height
    col = tile % (GROUP * across) // height
    rm, rn, rk = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a + rm[:, None] * am + (start + rk)[None, :] * ak, (rm < m)[:, None] & (start + rk < k)[None, :], 0.0)
        right = tl.load(b + (start + rk)[:, None] * bk + rn[None, :] * bn, (start + rk < k)[:, None] & (rn < n)[None, :], 0.0)
        sums = tl.dot(left, right, sums)
    if ACTIVATION == "leaky":
        sums = leaky(sums)
    tl.store(c + rm[:, None] * cm + rn[None, :] * cn, sums.to(c.dtype.element_ty), (rm < m)[:, None] & (rn < n)[None, :])


def matmul(a, b, activation=""):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)  # noqa: E731
    matmul_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation)
    return c


@pytest.mark.parametrize("activation", ["", "leaky"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_matmul(activation, dtype):
    a, b = randn(65, 72, dtype=dtype), randn(48, 72, dtype=dtype).T
    expected = a.float() @ b.float()
    expected = torch.nn.functional.leaky_relu(expected) if activation else expected
    torch.testing.assert_close(matmul(a, b, activation), expected.to(dtype), atol=1e-2, rtol=1e-2)


# 4. Random numbers that are computed again instead of stored
@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, at < n) / (1 - p), 0.0), at < n)


def test_dropout():
    x = randn(2000) + 10
    outs = []
    for seed in (123, 123, 512):
        outs.append(torch.empty_like(x))
        dropout_kernel[(triton.cdiv(x.numel(), 256),)](x, outs[-1], x.numel(), 0.25, seed, BLOCK=256)
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])
    kept = outs[0] != 0
    assert 0.7 < kept.float().mean().item() < 0.8
    torch.testing.assert_close(outs[0][kept], x[kept] / 0.75)


# 5. A norm with its gradients; the sums over rows are added under a lock
@triton.jit
def norm_forward(x, y, w, b, means, scales, cols, eps, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.arange(0, BLOCK)
    inside = col < cols
    values = tl.load(x + row * cols + col, inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / cols
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    tl.store(y + row * cols + col, centred * scale * tl.load(w + col, inside) + tl.load(b + col, inside), inside)


@triton.jit
def norm_backward(dx, dy, x, w, means, scales, dw, db, locks, cols, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.arange(0, BLOCK)
    inside = col < cols
    scale = tl.load(scales + row)
    normal = tl.where(inside, (tl.load(x + row * cols + col, inside, other=0.0) - tl.load(means + row)) * scale, 0.0)
    grad = tl.load(dy + row * cols + col, inside, other=0.0)
    weighted = grad * tl.load(w + col, inside, other=0.0)
    along = tl.sum(normal * weighted, axis=0) / cols
    tl.store(dx + row * cols + col, (weighted - normal * along - tl.sum(weighted, axis=0) / cols) * scale, inside)
    group = row % GROUPS
    lock, is_used = locks + group, locks + GROUPS + group
    dw, db = dw + group * cols + col, db + group * cols + col
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    add_w, add_b = grad * normal, grad
    if tl.load(is_used) == 0:
        tl.atomic_xchg(is_used, 1)
    else:
        add_w += tl.load(dw, inside)
        add_b += tl.load(db, inside)
    tl.store(dw, add_w, inside)
    tl.store(db, add_b, inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps):
        y, (rows, cols) = torch.empty_like(x), x.shape
        means, scales = (torch.empty(rows, device=x.device, dtype=torch.float32) for _ in range(2))
        block = triton.next_power_of_2(cols)
        norm_forward[(rows,)](x, y, w, b, means, scales, cols, eps, BLOCK=block)
        ctx.save_for_backward(x, w, means, scales)
        ctx.block = block
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, means, scales = ctx.saved_tensors
        (rows, cols), groups = x.shape, 3
        dx = torch.empty_like(x)
        dw, db = (torch.empty((groups, cols), device=x.device) for _ in range(2))
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        norm_backward[(rows,)](
            dx, dy.contiguous(), x, w, means, scales, dw, db, locks, cols, GROUPS=groups, BLOCK=ctx.block
        )
        return dx, dw.sum(0), db.sum(0), None


def test_norm():
    x, w, b = randn(20, 100).requires_grad_(), torch.rand(100, device=DEVICE, requires_grad=True), randn(100).requires_grad_()
    dy = randn(20, 100)
    y = Norm.apply(x, w, b, 1e-5)
    y.backward(dy)
    grads, x.grad, w.grad, b.grad = (x.grad, w.grad, b.grad), None, None, None
    expected = torch.nn.functional.layer_norm(x, (100,), w, b, 1e-5)
    expected.backward(dy)
    torch.testing.assert_close(y, expected)
    for ours, theirs in zip(grads, (x.grad, w.grad, b.grad)):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


# 6. Attention
@triton.jit
def attention_kernel(q, k, v, o, length, scale, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start, head = tl.program_id(0) * BM, tl.program_id(1).to(tl.int64) * length * D
    rm, rd = start + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + head + rm[:, None] * D + rd[None, :], (rm < length)[:, None], 0.0)
    peak = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    end = min(start + BM, length) if CAUSAL else length
    for first in range(0, end, BN):
        rn = first + tl.arange(0, BN)
        key = tl.load(k + head + rn[None, :] * D + rd[:, None], (rn < length)[None, :], 0.0)
        scores = tl.dot(query, key) * (scale * 1.4426950408889634)
        seen = (rn < length)[None, :] & ((rn[None, :] <= rm[:, None]) if CAUSAL else True)
        scores = tl.where(seen, scores, -1e9)
        higher = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        factor = tl.exp2(peak - higher)
        total = total * factor + tl.sum(weights, 1)
        value = tl.load(v + head + rn[:, None] * D + rd[None, :], (rn < length)[:, None], 0.0)
        sums = tl.dot(weights.to(value.dtype), value, sums * factor[:, None])
        peak = higher
    tl.store(o + head + rm[:, None] * D + rd[None, :], (sums / total[:, None]).to(o.dtype.element_ty), (rm < length)[:, None])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [64, 75])
def test_attention(causal, length):
    q, k, v = (randn(1, 2, length, 32, dtype=torch.float16) for _ in range(3))
    o = torch.empty_like(q)
    attention_kernel[(triton.cdiv(length, 32), 2)](q, k, v, o, length, 32**-0.5, CAUSAL=causal, D=32, BM=32, BN=32)
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    torch.testing.assert_close(o, expected.half(), atol=2e-3, rtol=1e-2)


# 7. Functions of CUDA's device library
@triton.jit
def functions_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n)
    tl.store(out + at, libdevice.asin(value) + libdevice.expm1(value) + libdevice.tgamma(value + 2), at < n)


def test_device_functions():
    x = torch.rand(100, device=DEVICE)
    out = torch.empty_like(x)
    functions_kernel[(1,)](x, out, 100, BLOCK=128)
    torch.testing.assert_close(out, torch.asin(x) + torch.expm1(x) + torch.exp(torch.lgamma(x + 2)))


# 8. Products of several sizes in one launch; the addresses are in a tensor
@triton.jit
def grouped_kernel(addresses, sizes, groups, PROGRAMS: tl.constexpr, B: tl.constexpr):
    tile, done = tl.program_id(0), 0
    for group in range(groups):
        m, n, k = tl.load(sizes + 3 * group), tl.load(sizes + 3 * group + 1), tl.load(sizes + 3 * group + 2)
        across = tl.cdiv(n, B)
        tiles = across * tl.cdiv(m, B)
        while tile < done + tiles:
            a = tl.load(addresses + 3 * group).to(tl.pointer_type(tl.float16))
            b = tl.load(addresses + 3 * group + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(addresses + 3 * group + 2).to(tl.pointer_type(tl.float16))
            rm = (tile - done) // across * B + tl.arange(0, B)
            rn, rk = (tile - done) % across * B + tl.arange(0, B), tl.arange(0, B)
            sums = tl.zeros((B, B), tl.float32)
            for start in range(0, k, B):
                left = tl.load(a + rm[:, None] * k + (start + rk)[None, :], (rm < m)[:, None] & (start + rk < k)[None, :], 0.0)
                right = tl.load(b + (start + rk)[:, None] * n + rn[None, :], (start + rk < k)[:, None] & (rn < n)[None, :], 0.0)
                sums = tl.dot(left, right, sums)
            tl.store(c + rm[:, None] * n + rn[None, :], sums.to(tl.float16), (rm < m)[:, None] & (rn < n)[None, :])
            tile += PROGRAMS
        done += tiles


def test_grouped_matmul():
    groups = [(33, 40, 48), (16, 16, 16), (64, 17, 32)]
    triples = [(randn(m, k).half(), randn(k, n).half(), torch.empty(m, n, device=DEVICE).half()) for m, n, k in groups]
    addresses = torch.tensor([t.data_ptr() for triple in triples for t in triple], device=DEVICE)
    sizes = torch.tensor(groups, dtype=torch.int32, device=DEVICE)
    grouped_kernel[(4,)](addresses, sizes, len(groups), PROGRAMS=4, B=16)
    for a, b, c in triples:
        torch.testing.assert_close(c, (a.float() @ b.float()).half(), atol=1e-2, rtol=1e-2)


# 9. A fixed number of programs, tiles by descriptors
@triton.jit
def persistent_kernel(a, b, c, m, n, k, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), across * tl.cdiv(m, BM), PROGRAMS):
        row, col = tile // across * BM, tile % across * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            sums = tl.dot(a.load([row, start]), b.load([col, start]).T, sums)
        c.store([row, col], sums.to(tl.float16))


@triton.jit
def device_descriptors_kernel(a, b, c, m, n, k, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    persistent_kernel(a, b, c, m, n, k, PROGRAMS, BM, BN, BK)


@pytest.mark.parametrize("where", ["host", "device"])
def test_persistent_matmul(where):
    from triton.tools.tensor_descriptor import TensorDescriptor

    m, n, k, blocks = 96, 64, 64, {"BM": 64, "BN": 32, "BK": 32}
    a, b = randn(m, k).half(), randn(n, k).half()
    c = torch.empty(m, n, device=DEVICE, dtype=torch.float16)
    if where == "host":
        tile = lambda t, *block: TensorDescriptor.from_tensor(t, list(block))  # noqa: E731
        persistent_kernel[(3,)](tile(a, 64, 32), tile(b, 32, 32), tile(c, 64, 32), m, n, k, PROGRAMS=3, **blocks)
    else:
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=DEVICE, dtype=torch.int8))
        device_descriptors_kernel[(3,)](a, b, c, m, n, k, PROGRAMS=3, **blocks)
    torch.testing.assert_close(c, (a.float() @ b.float().T).half(), atol=1e-2, rtol=1e-2)


# 10. A launch that may begin before the one before has ended
@triton.jit
def chained_kernel(x, out, n, BLOCK: tl.constexpr, EARLY: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EARLY:
        tl.extra.cuda.gdc_wait()
    tl.store(out + at, tl.load(x + at, at < n) + 1, at < n)
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()


@pytest.mark.parametrize("early", [False, pytest.param(True, marks=pytest.mark.skipif(not IS_HOPPER, reason="needs sm_90"))])
def test_chained_launches(early):
    x = randn(1000)
    first, second = torch.empty_like(x), torch.empty_like(x)
    options = {"launch_pdl": True} if early else {}
    chained_kernel[(4,)](x, first, 1000, BLOCK=256, EARLY=early, **options)
    chained_kernel[(4,)](first, second, 1000, BLOCK=256, EARLY=early, **options)
    torch.testing.assert_close(second, x + 2)


@pytest.mark.skipif(torch.cuda.get_device_capability()[0] < 10, reason="needs sm_100")
def test_block_scaled_products():
    raise AssertionError("there is no virtual GPU with sm_100 products")
