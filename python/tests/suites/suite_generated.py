"""A small tensor library that generates its kernels, with tests in the way of such libraries: classes of ``unittest``,
one helper that compares every operation with numpy, generated sources, no PyTorch.

The suite does not know of the virtual GPU. Its arrays are those of numpy.
"""

import importlib.util
import itertools
import math
import os
import tempfile
import unittest

import numpy as np
import triton

NUMBER = itertools.count()
FOLDER = tempfile.mkdtemp()
HEAD = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n@triton.jit\n"


def compiled(source):
    """The kernel ``kernel`` of a generated source. Triton reads sources from files."""
    path = os.path.join(FOLDER, f"generated{next(NUMBER)}.py")
    with open(path, "w") as file:
        file.write(HEAD + source)
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


class Tensor:
    """Operations are collected as text and computed when ``numpy()`` asks."""

    def __init__(self, value, shape=None, inputs=()):
        if isinstance(value, np.ndarray):
            self.shape, self.inputs, self.text = value.shape, (np.ascontiguousarray(value),), None
        else:
            self.shape, self.inputs, self.text = shape, inputs, value

    def _expression(self, first):
        return self.text(first) if self.text else f"v{first}"

    def _map(self, form, *others):
        sides = [self, *others]
        starts = [0, *itertools.accumulate(len(side.inputs) for side in sides)]
        text = lambda first: form.format(*(side._expression(first + start) for side, start in zip(sides, starts)))  # noqa: E731
        return Tensor(text, self.shape, sum((side.inputs for side in sides), ()))

    def __add__(self, other):
        return self._map("({} + {})", other)

    def __mul__(self, other):
        return self._map("({} * {})", other)

    def __sub__(self, other):
        return self._map("({} - {})", other)

    def exp(self):
        return self._map("tl.exp({})")

    def relu(self):
        return self._map("tl.maximum({}, 0.0)")

    def erf(self):
        return self._map("libdevice.erf({})")

    def numpy(self):
        if self.text is None:
            return self.inputs[0]
        count = math.prod(self.shape)
        names = [f"p{i}" for i in range(len(self.inputs))]
        loads = "".join(f"    v{i} = tl.load({name} + i, i < n, other=0.0)\n" for i, name in enumerate(names))
        kernel = compiled(
            f"def kernel(out, {', '.join(names)}, n, B: tl.constexpr):\n    i = tl.program_id(0) * B + tl.arange(0, B)\n"
            f"{loads}    tl.store(out + i, {self._expression(0)}, i < n)\n"
        )
        out = np.empty(self.shape, dtype=self.inputs[0].dtype)
        kernel[(triton.cdiv(count, 128),)](out, *self.inputs, count, B=128)
        return out

    def _reduce(self, combine, start):
        """Along the last axis, in two launches if the rows are long."""
        values = self.numpy()
        rows, cols = math.prod(values.shape[:-1]), values.shape[-1]
        kernel = compiled(
            "def kernel(out, x, cols, parts, B: tl.constexpr):\n"
            "    row, part, i = tl.program_id(0), tl.program_id(1), tl.arange(0, B)\n"
            f"    c = part * B + i\n    v = tl.load(x + row * cols + c, c < cols, other={start})\n"
            f"    tl.store(out + row * parts + part, tl.{combine}(v, axis=0))\n"
        )
        while True:
            parts = triton.cdiv(cols, 64)
            out = np.empty((rows, parts), dtype=values.dtype)
            kernel[(rows, parts)](out, values, cols, parts, B=64)
            if parts == 1:
                return Tensor(out.reshape(self.shape[:-1]))
            values, cols = out, parts

    def sum(self):
        return self._reduce("sum", "0.0")

    def max(self):
        return self._reduce("max", "-float('inf')")

    def cumsum(self):
        values = self.numpy()
        rows, cols = math.prod(values.shape[:-1]), values.shape[-1]
        kernel = compiled(
            "def kernel(out, x, cols, B: tl.constexpr):\n    c = tl.arange(0, B)\n    row = tl.program_id(0) * cols\n"
            "    tl.store(out + row + c, tl.cumsum(tl.load(x + row + c, c < cols, other=0.0), axis=0), c < cols)\n"
        )
        out = np.empty_like(values)
        kernel[(rows,)](out, values, cols, B=triton.next_power_of_2(cols))
        return Tensor(out)

    def __matmul__(self, other):
        a, b = self.numpy(), other.numpy()
        (m, k), n = a.shape, b.shape[1]
        kernel = compiled(
            "def kernel(c, a, b, m, n, k, B: tl.constexpr):\n"
            "    rm, rn, rk = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, B)\n"
            "    sums = tl.zeros((B, B), tl.float32)\n"
            "    for s in range(0, k, B):\n"
            "        x = tl.load(a + rm[:, None] * k + (s + rk)[None, :], (rm < m)[:, None] & (s + rk < k)[None, :], 0.0)\n"
            "        y = tl.load(b + (s + rk)[:, None] * n + rn[None, :], (s + rk < k)[:, None] & (rn < n)[None, :], 0.0)\n"
            "        sums = tl.dot(x, y, sums, input_precision='ieee')\n"
            "    tl.store(c + rm[:, None] * n + rn[None, :], sums, (rm < m)[:, None] & (rn < n)[None, :])\n"
        )
        c = np.empty((m, n), dtype=a.dtype)
        kernel[(triton.cdiv(m, 16), triton.cdiv(n, 16))](c, a, b, m, n, k, B=16)
        return Tensor(c)


def helper_test_op(shapes, theirs, ours=None, low=-2.0, high=2.0, dtype=np.float32, atol=1e-6, rtol=1e-5):
    random = np.random.default_rng(sum(map(sum, shapes)))
    inputs = [random.uniform(low, high, shape).astype(dtype) for shape in shapes]
    expected = theirs(*(it.astype(np.float64) for it in inputs))
    found = (ours or theirs)(*map(Tensor, inputs))
    np.testing.assert_allclose(found.numpy(), expected, atol=atol, rtol=rtol)


class TestElements(unittest.TestCase):
    def test_add(self):
        for shape in [(1,), (45, 65), (2, 3, 128)]:
            with self.subTest(shape=shape):
                helper_test_op([shape, shape], lambda x, y: x + y)

    def test_fused(self):
        helper_test_op([(33, 7)] * 3, lambda x, y, z: (x + y) * z - x)

    def test_exp(self):
        helper_test_op([(129,)], np.exp, Tensor.exp)

    def test_relu(self):
        helper_test_op([(64, 64)], lambda x: np.maximum(x, 0), Tensor.relu)

    def test_erf(self):
        helper_test_op([(50,)], np.vectorize(math.erf), Tensor.erf)

    def test_half(self):
        helper_test_op([(300,)] * 2, lambda x, y: x * y, dtype=np.float16, atol=1e-3, rtol=1e-3)


class TestReductions(unittest.TestCase):
    def test_sum(self):
        for shape in [(1, 1), (3, 64), (2, 65), (2, 5000)]:
            with self.subTest(shape=shape):
                helper_test_op([shape], lambda x: x.sum(axis=-1), Tensor.sum, atol=1e-4)

    def test_max(self):
        helper_test_op([(4, 5, 321)], lambda x: x.max(axis=-1), Tensor.max)

    def test_softmax_denominator(self):
        helper_test_op([(6, 200)], lambda x: np.exp(x).sum(axis=-1), lambda x: x.exp().sum(), atol=1e-4)

    def test_cumsum(self):
        for cols in (1, 31, 256):
            with self.subTest(cols=cols):
                helper_test_op([(3, cols)], lambda x: x.cumsum(axis=-1), Tensor.cumsum, atol=1e-4)


class TestProducts(unittest.TestCase):
    def test_matmul(self):
        for m, k, n in [(16, 16, 16), (33, 5, 18), (1, 70, 1)]:
            with self.subTest(m=m, k=k, n=n):
                helper_test_op([(m, k), (k, n)], lambda x, y: x @ y, atol=1e-4)

    @unittest.skipUnless(os.environ.get("BIG"), "slow")
    def test_big_matmul(self):
        helper_test_op([(512, 512), (512, 512)], lambda x, y: x @ y, atol=1e-3)

    @unittest.expectedFailure
    def test_wrong(self):
        helper_test_op([(16, 16), (16, 16)], lambda x, y: x @ y.T, lambda x, y: x @ y, atol=1e-4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
