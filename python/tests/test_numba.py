"""Numba's kernels on the virtual GPU."""

import numpy as np
import pytest
from conftest import Tensor

pytest.importorskip("numba_cuda")

from numba import cuda, float32  # noqa: E402

import warpsmith  # noqa: E402
import warpsmith.numba  # noqa: E402


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit(device=True)
def doubled(value):
    return value + value


@cuda.jit
def transpose(x, out):
    tile = cuda.shared.array((16, 17), float32)
    row, column = cuda.threadIdx.y, cuda.threadIdx.x
    tile[row, column] = doubled(x[row, column])
    cuda.syncthreads()
    out[row, column] = tile[column, row]


@cuda.jit
def unbounded(x, y):
    i = cuda.grid(1)
    y[i] = x[i]  # no bounds


@cuda.jit
def unsynchronised(x, out):
    part = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    out[t] = part[63 - t]  # no barrier


def line_of(kernel, text):
    import inspect

    lines, first = inspect.getsourcelines(kernel.py_func)
    return first + next(index for index, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_kernels_equal_numpy(target):
    x, y = np.arange(500, dtype=np.float32), np.ones(500, dtype=np.float32)
    with warpsmith.numba.virtual(target) as session:
        saxpy[4, 128](2.5, x, y)
        np.testing.assert_allclose(y, 2.5 * x + 1)
        saxpy.forall(500)(1, x, Tensor(y))
        np.testing.assert_allclose(y, 3.5 * x + 1)
        square = np.random.default_rng(1).random((16, 16), dtype=np.float32)
        out = np.zeros_like(square)
        transpose[1, (16, 16)](square, out)
        assert np.array_equal(out, 2 * square.T)
        # Arrays with other strides.
        wide = np.zeros((16, 32), dtype=np.float32)
        transpose[1, (16, 16)](np.asfortranarray(square), wide[:, ::2])
        assert np.array_equal(wide[:, ::2], 2 * square.T) and not wide[:, 1::2].any()
    assert session.ok and len(session.reports) == 4


def test_bugs_are_reported_at_their_python_lines():
    x, y = np.ones(500, dtype=np.float32), np.ones(500, dtype=np.float32)
    with warpsmith.numba.virtual(), pytest.raises(warpsmith.SanitizeError) as caught:
        unbounded[4, 128](x, y)
    finding = caught.value.report.errors[0]
    assert (finding.kind, finding.file) == ("out-of-bounds", __file__)
    assert finding.line == line_of(unbounded, "# no bounds")
    report = warpsmith.numba.sanitize(unsynchronised, grid=1, block=64, args=[x[:64].copy(), y[:64].copy()])
    assert {"race"} <= {finding.kind for finding in report.errors}
    race = report.errors[0]
    lines = {race.line, race.related[0].line}
    assert lines == {line_of(unsynchronised, "part[t] ="), line_of(unsynchronised, "# no barrier")}


def test_wrong_arguments_are_named():
    x = np.ones(4, dtype=np.float32)
    with warpsmith.numba.virtual():
        with pytest.raises(TypeError, match="args: `saxpy` has 3 parameters, but 2 arguments are given"):
            saxpy[1, 32](2.0, x)
        with pytest.raises(ValueError, match="grid: 0 is not a size"):
            saxpy[0, 32](2.0, x, x)
    with pytest.raises(ValueError, match="target: 'sm_1'"):
        warpsmith.numba.sanitize(saxpy, args=[1.0, x, x], target="sm_1")


def test_a_missing_cuda_library_is_named_with_its_remedy(monkeypatch):
    class DynamicLibNotFoundError(RuntimeError):
        """Named like the exception of cuda-pathfinder."""

    def fails(*_args, **_options):
        raise DynamicLibNotFoundError('Failure finding "libnvvm.so.4 or libnvvm.so": No such file')

    monkeypatch.setattr(warpsmith.numba._cuda, "compile_ptx", fails)
    with pytest.raises(warpsmith.UnsupportedError, match=r"finds no libnvvm\.so.*numba-cuda\[cu13\]"):
        with warpsmith.numba.virtual():
            cuda.jit(lambda x: None)[1, 1](np.zeros(4, np.float32))
