"""Kernels in Numba, with the launches and inputs of their cases."""

import math

import numba
import numba_cuda
import numpy as np
from numba import cuda, float32, float64, int32, uint32, uint64

from case import Case, null, read, scalar, update, write

TILE = 16
PADDED = 17


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def grid_stride(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = math.sqrt(x[i]) + math.sin(x[i])


def block_sum(x, out):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


def warp_sum(x, out):
    value = x[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


def matmul(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    col, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for start in range(0, a.shape[1], TILE):
        left[ty, tx] = a[row, start + tx] if row < a.shape[0] and start + tx < a.shape[1] else 0.0
        right[ty, tx] = b[start + ty, col] if start + ty < b.shape[0] and col < b.shape[1] else 0.0
        cuda.syncthreads()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def transpose(x, out):
    tile = cuda.shared.array((TILE, PADDED), float64)
    col, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    if row < x.shape[0] and col < x.shape[1]:
        tile[ty, tx] = x[row, col]
    cuda.syncthreads()
    col = cuda.blockIdx.y * TILE + tx
    row = cuda.blockIdx.x * TILE + ty
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = tile[tx, ty]


def histogram(x, out):
    part = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 32:
        part[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(part, x[i] % 32, 1)
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(out, t, part[t])


def mandelbrot(out, limit):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        c = complex(-2.0 + 3.0 * x / out.shape[1], -1.0 + 2.0 * y / out.shape[0])
        z = complex(0.0, 0.0)
        steps = 0
        while steps < limit and z.real * z.real + z.imag * z.imag < 4.0:
            z = z * z + c
            steps += 1
        out[y, x] = steps


def inclusive_scan(x, out):
    old = cuda.shared.array(256, int32)
    new = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    old[t] = x[cuda.blockIdx.x * 256 + t]
    cuda.syncthreads()
    step = 1
    while step < 256:
        new[t] = old[t] + old[t - step] if t >= step else old[t]
        cuda.syncthreads()
        old[t] = new[t]
        cuda.syncthreads()
        step *= 2
    out[cuda.blockIdx.x * 256 + t] = old[t]


def bodies(position, mass, force):
    i = cuda.grid(1)
    if i >= mass.size:
        return
    fx, fy, fz = float32(0), float32(0), float32(0)
    for j in range(mass.size):
        dx = position[j, 0] - position[i, 0]
        dy = position[j, 1] - position[i, 1]
        dz = position[j, 2] - position[i, 2]
        near = dx * dx + dy * dy + dz * dz + float32(0.01)
        scale = mass[j] / (near * math.sqrt(near))
        fx += dx * scale
        fy += dy * scale
        fz += dz * scale
    force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


def softmax(x, out):
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    part = cuda.shared.array(64, float32)
    highest = float32(-math.inf)
    for i in range(t, x.shape[1], 64):
        highest = max(highest, x[row, i])
    part[t] = highest
    cuda.syncthreads()
    highest = part[0]
    for i in range(1, 64):
        highest = max(highest, part[i])
    cuda.syncthreads()
    total = float32(0)
    for i in range(t, x.shape[1], 64):
        total += math.exp(x[row, i] - highest)
    part[t] = total
    cuda.syncthreads()
    total = float32(0)
    for i in range(64):
        total += part[i]
    for i in range(t, x.shape[1], 64):
        out[row, i] = math.exp(x[row, i] - highest) / total


def life(old, new):
    x, y = cuda.grid(2)
    h, w = old.shape
    if x >= w or y >= h:
        return
    alive = 0
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            if dx != 0 or dy != 0:
                alive += old[(y + dy) % h, (x + dx) % w]
    new[y, x] = 1 if alive == 3 or (alive == 2 and old[y, x] == 1) else 0


def count_inside(seeds, steps, hits):
    i = cuda.grid(1)
    if i >= seeds.size:
        return
    state, inside = uint32(seeds[i]), uint64(0)
    for _ in range(steps):
        state = uint32(state ^ (state << uint32(13)))
        state = uint32(state ^ (state >> uint32(17)))
        state = uint32(state ^ (state << uint32(5)))
        x = float64(state) / 4294967296.0
        state = uint32(state ^ (state << uint32(13)))
        state = uint32(state ^ (state >> uint32(17)))
        state = uint32(state ^ (state << uint32(5)))
        y = float64(state) / 4294967296.0
        if x * x + y * y < 1.0:
            inside += uint64(1)
    hits[i] = inside


def running_largest(x, out):
    """A local array, sorted by insertion: the four largest values of each row."""
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    best = cuda.local.array(4, float32)
    for k in range(4):
        best[k] = -math.inf
    for i in range(x.shape[1]):
        value = x[row, i]
        for k in range(4):
            if value > best[k]:
                best[k], value = value, best[k]
    for k in range(4):
        out[row, k] = best[k]


def array(argument):
    """The parameters that Numba passes for an array: owner, parent, sizes, data, shape and strides."""
    data = argument.data
    dims = [scalar(n, "int64") for n in data.shape + data.strides]
    sizes = [scalar(data.size, "int64"), scalar(data.itemsize, "int64")]
    return [null(), null(), *sizes, argument, *dims]


def case(function, target, grid, block, arguments):
    kinds, flat = [], []
    for argument in arguments:
        kind = numba.from_dtype(argument.data.dtype)
        if argument.role == "value":
            kinds.append(kind)
            flat.append(argument)
        else:
            kinds.append(numba.types.Array(kind, argument.data.ndim, "C"))
            flat += array(argument)
    ptx, _ = cuda.compile_ptx(function, tuple(kinds), cc=(target // 10, target % 10))
    entry = next(line for line in ptx.splitlines() if ".visible .entry" in line)
    return Case(
        name=f"numba_{function.__name__}_sm{target}",
        compiler=f"numba-cuda {numba_cuda.__version__}",
        ptx=ptx,
        kernel=entry.split()[2].rstrip("("),
        grid=grid,
        block=block,
        shared=0,
        arguments=flat,
    )


def elementwise_cases(target, random):
    x, y = random.random((2, 500), dtype=np.float32)
    out = (np.float64(2.5) * x.astype(np.float64) + y).astype(np.float32)
    yield case(saxpy, target, (4,), (128,), [scalar(2.5, "float32"), read(x), update(y, out, 1e-6)])
    x = x.astype(np.float64) * 10
    yield case(grid_stride, target, (2,), (64,), [read(x), write(np.sqrt(x) + np.sin(x), 1e-14)])
    limit, h, w = 50, 24, 32
    col, row = np.meshgrid(np.arange(w), np.arange(h))
    c = (-2.0 + 3.0 * col / w) + 1j * (-1.0 + 2.0 * row / h)
    z, steps = np.zeros_like(c), np.zeros(c.shape, dtype=np.int32)
    for _ in range(limit):
        inside = z.real**2 + z.imag**2 < 4.0
        z = np.where(inside, z * z + c, z)
        steps += inside
    yield case(mandelbrot, target, (2, 2), (16, 16), [write(steps), scalar(limit, "int32")])


def reduction_cases(target, random):
    x = random.standard_normal(500).astype(np.float32)
    padded = np.zeros(512)
    padded[:500] = x
    sums = padded.reshape(4, 128).sum(axis=1).astype(np.float32)
    yield case(block_sum, target, (4,), (128,), [read(x), write(sums, 1e-5, 1e-5)])
    x = random.integers(-100, 100, 256).astype(np.int32)
    total = np.array([x.sum()], dtype=np.int32)
    yield case(warp_sum, target, (2,), (128,), [read(x), update(np.zeros_like(total), total)])
    x = random.integers(0, 1000, 700).astype(np.int32)
    counts = np.bincount(x % 32, minlength=32).astype(np.int32)
    yield case(histogram, target, (6,), (128,), [read(x), update(np.zeros_like(counts), counts)])
    x = random.integers(-100, 100, (2, 256)).astype(np.int32)
    sums = np.cumsum(x, axis=1).astype(np.int32).reshape(-1)
    yield case(inclusive_scan, target, (2,), (256,), [read(x.reshape(-1)), write(sums)])
    x = random.standard_normal((5, 150)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    out = (e / e.sum(axis=1, keepdims=True)).astype(np.float32)
    yield case(softmax, target, (5,), (64,), [read(x), write(out, 1e-5)])
    x = random.standard_normal((40, 30)).astype(np.float32)
    best = -np.sort(-x, axis=1)[:, :4]
    yield case(running_largest, target, (2,), (32,), [read(x), write(best)])


def matrix_cases(target, random):
    a = random.standard_normal((40, 50)).astype(np.float32)
    b = random.standard_normal((50, 30)).astype(np.float32)
    out = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    yield case(matmul, target, (2, 3), (16, 16), [read(a), read(b), write(out, 1e-5, 1e-4)])
    x = random.standard_normal((40, 50))
    yield case(transpose, target, (4, 3), (16, 16), [read(x), write(x.T)])
    x = random.integers(0, 2, (20, 33)).astype(np.int32)
    around = [np.roll(x, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dx or dy]
    alive = sum(around)
    new = ((alive == 3) | ((alive == 2) & (x == 1))).astype(np.int32)
    yield case(life, target, (3, 2), (16, 16), [read(x), write(new)])


def simulation_cases(target, random):
    position = random.standard_normal((60, 3)).astype(np.float32)
    mass = random.random(60, dtype=np.float32)
    offset = position[None].astype(np.float64) - position[:, None]
    near = (offset**2).sum(axis=2) + 0.01
    force = (offset * (mass / near**1.5)[:, :, None]).sum(axis=1).astype(np.float32)
    yield case(bodies, target, (1,), (64,), [read(position), read(mass), write(force, 1e-4, 1e-3)])
    seeds = random.integers(1, 2**32, 100, dtype=np.uint32)
    state, hits = seeds.copy(), np.zeros(100, dtype=np.uint64)
    for _ in range(20):
        draws = []
        for _ in range(2):
            for shift, left in ((13, True), (17, False), (5, True)):
                state = state ^ (state << np.uint32(shift) if left else state >> np.uint32(shift))
            draws.append(state.astype(np.float64) / 2**32)
        hits += (draws[0] ** 2 + draws[1] ** 2 < 1.0).astype(np.uint64)
    yield case(count_inside, target, (4,), (32,), [read(seeds), scalar(20, "int32"), write(hits)])


def cases(random):
    for target in (80, 90):
        yield from elementwise_cases(target, random)
        yield from reduction_cases(target, random)
        yield from matrix_cases(target, random)
        yield from simulation_cases(target, random)
