"""Kernels in the CuTe DSL of CUTLASS, with the launches and inputs of their cases."""

import os
import re

# The DSL asks the driver for its target, unless the environment has one. `compile_for` sets it for each kernel.
os.environ.setdefault("CUTE_DSL_ARCH", "sm_80")

import cutlass
import cutlass.cute as cute
import numpy as np
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.cute.runtime import make_fake_tensor

from case import Case, read, write


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """Four values per thread, in one vector access."""
    tid, _, _ = cute.arch.thread_idx()
    bid, _, _ = cute.arch.block_idx()
    i = bid * 128 + tid
    if i < cute.size(c, mode=[1]):
        c[None, i].store(a[None, i].load() + b[None, i].load())


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    a, b, c = (cute.zipped_divide(t, (4,)) for t in (a, b, c))
    blocks = cute.ceil_div(cute.size(c, mode=[1]), 128)
    add_kernel(a, b, c).launch(grid=(blocks, 1, 1), block=(128, 1, 1))


@cute.kernel
def transpose_kernel(a: cute.Tensor, out: cute.Tensor):
    tx, ty, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    memory = cutlass.utils.SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float32, cute.make_layout((16, 16), stride=(17, 1)), 16)
    if by * 16 + ty < a.shape[0] and bx * 16 + tx < a.shape[1]:
        tile[ty, tx] = a[by * 16 + ty, bx * 16 + tx]
    cute.arch.sync_threads()
    if bx * 16 + ty < out.shape[0] and by * 16 + tx < out.shape[1]:
        out[bx * 16 + ty, by * 16 + tx] = tile[tx, ty]


@cute.jit
def transpose(a: cute.Tensor, out: cute.Tensor):
    grid = (cute.ceil_div(a.shape[1], 16), cute.ceil_div(a.shape[0], 16), 1)
    transpose_kernel(a, out).launch(grid=grid, block=(16, 16, 1))


@cute.kernel
def rms_norm_kernel(x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Constexpr):
    """One block per row: sums by shuffles in a warp, then over the warps through shared memory."""
    tid, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    memory = cutlass.utils.SmemAllocator()
    parts = memory.allocate_tensor(cutlass.Float32, cute.make_layout(4), 16)
    n = x.shape[1]
    total = cutlass.Float32(0.0)
    for i in range(tid, n, 128):
        total += x[row, i] * x[row, i]
    for step in cutlass.range_constexpr(5):
        total += cute.arch.shuffle_sync_bfly(total, 16 >> step)
    if tid % 32 == 0:
        parts[tid // 32] = total
    cute.arch.sync_threads()
    total = parts[0] + parts[1] + parts[2] + parts[3]
    scale = cute.math.rsqrt(total / n + eps)
    for i in range(tid, n, 128):
        out[row, i] = x[row, i] * scale * weight[i]


@cute.jit
def rms_norm(x: cute.Tensor, weight: cute.Tensor, out: cute.Tensor, eps: cutlass.Constexpr):
    rms_norm_kernel(x, weight, out, eps).launch(grid=(x.shape[0], 1, 1), block=(128, 1, 1))


@cute.kernel
def softmax_kernel(x: cute.Tensor, out: cute.Tensor):
    """One warp per row of 128 values, in registers."""
    lane, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    values = cute.make_rmem_tensor(cute.make_layout(4), cutlass.Float32)
    highest = -cutlass.Float32.inf
    for i in cutlass.range_constexpr(4):
        values[i] = x[row, lane + 32 * i]
        highest = cute.arch.fmax(highest, values[i])
    for step in cutlass.range_constexpr(5):
        highest = cute.arch.fmax(highest, cute.arch.shuffle_sync_bfly(highest, 16 >> step))
    total = cutlass.Float32(0.0)
    for i in cutlass.range_constexpr(4):
        values[i] = cute.math.exp(values[i] - highest)
        total += values[i]
    for step in cutlass.range_constexpr(5):
        total += cute.arch.shuffle_sync_bfly(total, 16 >> step)
    for i in cutlass.range_constexpr(4):
        out[row, lane + 32 * i] = values[i] / total


@cute.jit
def softmax(x: cute.Tensor, out: cute.Tensor):
    softmax_kernel(x, out).launch(grid=(x.shape[0], 1, 1), block=(32, 1, 1))


@cute.kernel
def matmul_kernel(
    a: cute.Tensor,
    b: cute.Tensor,
    c: cute.Tensor,
    mma: cute.TiledMma,
    load: cute.TiledCopy,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    """Tiles of 64x64 with k=32: asynchronous copies into shared memory, ldmatrix, mma.m16n8k16."""
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    tile = (64, 64, 32)
    tiles_a = cute.local_tile(a, tile, (bx, by, None), proj=(1, None, 1))
    tiles_b = cute.local_tile(b, tile, (bx, by, None), proj=(None, 1, 1))
    tile_c = cute.local_tile(c, tile, (bx, by, None), proj=(1, 1, None))
    memory = cutlass.utils.SmemAllocator()
    shared_a = memory.allocate_tensor(cutlass.Float16, layout_a, 16)
    shared_b = memory.allocate_tensor(cutlass.Float16, layout_b, 16)

    copier = load.get_slice(tid)
    from_a, to_a = copier.partition_S(tiles_a), copier.partition_D(shared_a)
    from_b, to_b = copier.partition_S(tiles_b), copier.partition_D(shared_b)

    part = mma.get_slice(tid)
    registers_a = mma.make_fragment_A(part.partition_A(shared_a))
    registers_b = mma.make_fragment_B(part.partition_B(shared_b))
    part_c = part.partition_C(tile_c)
    sums = mma.make_fragment_C(part_c)
    sums.fill(0.0)

    matrix = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), cutlass.Float16)
    loader_a = cute.make_tiled_copy_A(matrix, mma)
    loader_b = cute.make_tiled_copy_B(matrix, mma)
    lines_a = loader_a.get_slice(tid).partition_S(shared_a)
    lines_b = loader_b.get_slice(tid).partition_S(shared_b)
    views_a = loader_a.retile(registers_a)
    views_b = loader_b.retile(registers_b)

    for k in range(cute.size(tiles_a, mode=[2])):
        cute.copy(load, from_a[None, None, None, k], to_a)
        cute.copy(load, from_b[None, None, None, k], to_b)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        for j in cutlass.range_constexpr(cute.size(registers_a, mode=[2])):
            cute.copy(loader_a, lines_a[None, None, j], views_a[None, None, j])
            cute.copy(loader_b, lines_b[None, None, j], views_b[None, None, j])
            cute.gemm(mma, sums, registers_a[None, None, j], registers_b[None, None, j], sums)
        cute.arch.sync_threads()

    for i in cutlass.range_constexpr(cute.size(sums)):
        part_c[i] = sums[i]


@cute.jit
def matmul(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    op = warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16))
    mma = cute.make_tiled_mma(op, cute.make_layout((2, 2, 1)), permutation_mnk=(32, 32, 16))
    copy = cute.make_copy_atom(cpasync.CopyG2SOp(), cutlass.Float16, num_bits_per_copy=128)
    threads = cute.make_layout((32, 4), stride=(4, 1))
    load = cute.make_tiled_copy_tv(copy, threads, cute.make_layout((1, 8)))
    swizzle = cute.make_swizzle(2, 3, 3)
    atom = cute.make_composed_layout(swizzle, 0, cute.make_layout((8, 32), stride=(32, 1)))
    layout = cute.tile_to_shape(atom, (64, 32), (0, 1))
    grid = (cute.ceil_div(c.shape[0], 64), cute.ceil_div(c.shape[1], 64), 1)
    matmul_kernel(a, b, c, mma, load, layout, layout).launch(grid=grid, block=(128, 1, 1))


KINDS = {"float16": cutlass.Float16, "float32": cutlass.Float32}


def case(function, target, grid, block, arguments, *constants, shared=0):
    """Compiles without a GPU: the tensors have a type, a shape and strides, but no memory."""
    tensors = []
    for argument in arguments:
        data = argument.data
        strides = tuple(stride // data.itemsize for stride in data.strides)
        tensors.append(make_fake_tensor(KINDS[data.dtype.name], data.shape, strides, assumed_align=16))
    name = function.__name__
    compiled = cute.compile(function, *tensors, *constants, options=f"--gpu-arch sm_{target} --keep-ptx")
    ptx = compiled.__ptx__
    return Case(
        name=f"cute_{name}_sm{target}",
        compiler=f"nvidia-cutlass-dsl {cutlass.__version__}",
        ptx=ptx,
        kernel=re.search(r"\.entry (\w+)", ptx)[1],
        grid=grid,
        block=block,
        shared=shared,
        arguments=arguments,
    )


def cases(random):
    for target in (80, "90a"):
        a, b = random.standard_normal((2, 1000)).astype(np.float32)
        yield case(add, target, (2,), (128,), [read(a), read(b), write(a + b)])
        x = random.standard_normal((40, 50)).astype(np.float32)
        yield case(transpose, target, (4, 3), (16, 16), [read(x), write(x.T)], shared=1088)
        x = random.standard_normal((4, 300)).astype(np.float32)
        weight = random.standard_normal(300).astype(np.float32)
        exact = x.astype(np.float64)
        out = exact / np.sqrt((exact**2).mean(axis=1, keepdims=True) + 1e-5) * weight
        arguments = [read(x), read(weight), write(out.astype(np.float32), 1e-5, 1e-6)]
        yield case(rms_norm, target, (4,), (128,), arguments, 1e-5, shared=16)
        x = random.standard_normal((5, 128)).astype(np.float32)
        e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        out = (e / e.sum(axis=1, keepdims=True)).astype(np.float32)
        yield case(softmax, target, (5,), (32,), [read(x), write(out, 1e-5)])
        a = random.standard_normal((128, 96)).astype(np.float16)
        b = random.standard_normal((64, 96)).astype(np.float16)
        out = (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)
        arguments = [read(a), read(b), write(out, 1e-4, 1e-3)]
        yield case(matmul, target, (2, 1), (128,), arguments, shared=8192)
