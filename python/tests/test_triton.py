"""Triton kernels on the virtual GPU: the kernels of the corpus against numpy, and planted bugs at their lines."""

import inspect

import numpy as np
import pytest
from conftest import Tensor

triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
import triton_kernels as corpus  # noqa: E402

import warpsmith  # noqa: E402
import warpsmith.triton  # noqa: E402

TARGETS = ("sm_80", "sm_89", "sm_90")


def line_of(kernel, text):
    """The line of the first line of a kernel that contains a text."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(index for index, line in enumerate(lines) if text in line)


# ---- The kernels of the corpus ----


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("wrap", [lambda array: array, Tensor], ids=["numpy", "tensor"])
def test_vector_add(target, wrap, random):
    x, y = random.standard_normal((2, 1000)).astype(np.float32)
    out = np.zeros_like(x)
    with warpsmith.triton.virtual(target) as session:
        corpus.vector_add[(4,)](wrap(x), wrap(y), wrap(out), 1000, BLOCK=256)
    assert np.array_equal(out, x + y)
    assert session.ok and len(session.reports) == 1 and session.reports[0].blocks == 4


@pytest.mark.parametrize("target", TARGETS)
def test_softmax(target, random):
    x = random.standard_normal((6, 200)).astype(np.float32) * 3
    out = np.zeros_like(x)
    with warpsmith.triton.virtual(target):
        corpus.softmax[(6,)](Tensor(x), Tensor(out), 200, 200, BLOCK=256)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("warps", [2, 4])
def test_matmul(target, warps, random):
    a, b, expected = corpus.products(random, 100, 72, 80)
    out = np.zeros_like(expected)
    with warpsmith.triton.virtual(target):
        corpus.matmul[(2, 3)](a, b, out, 100, 72, 80, BM=64, BN=32, BK=32, num_warps=warps)
    np.testing.assert_allclose(out, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_layer_norm(target, random):
    x = random.standard_normal((5, 200)).astype(np.float32)
    weight, bias = random.standard_normal((2, 200)).astype(np.float32)
    out, mean = np.zeros_like(x), np.zeros(5, dtype=np.float32)
    with warpsmith.triton.virtual(target):
        corpus.layer_norm[(5,)](x, weight, bias, out, mean, 200, 1e-5, BLOCK=256)
    exact = x.astype(np.float64)
    centred = exact - exact.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mean, exact.mean(axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_dropout(target, random):
    x = random.standard_normal(1000).astype(np.float32)
    out = np.zeros_like(x)
    with warpsmith.triton.virtual(target):
        corpus.dropout[(4,)](x, out, 1000, 0.5, 123, BLOCK=256)
    kept = corpus.uniform(corpus.philox(123, np.arange(1000))) > np.float32(0.5)
    np.testing.assert_allclose(out, np.where(kept, x * 2, 0), rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("warps", [2, 4])
def test_attention(target, warps, random):
    q, k, v = random.standard_normal((3, 2, 100, 32)).astype(np.float16)
    out = np.zeros_like(q)
    scale = 32**-0.5
    with warpsmith.triton.virtual(target):
        kernel = corpus.attention[(2, 2)]
        kernel(q, k, v, out, scale * corpus.LOG2_E, 100, D=32, BM=64, BN=32, num_warps=warps)
    np.testing.assert_allclose(out, corpus.attend(q, k, v, scale), rtol=4e-3, atol=2e-3)


def test_descriptors_that_the_kernel_makes(random):
    a, b, expected = corpus.products(random, 100, 72, 96)
    out = np.zeros_like(expected)
    with warpsmith.triton.virtual("sm_90"):
        corpus.matmul_descriptors[(2, 2)](a, b, out, 100, 72, 96, BM=64, BN=64, BK=32)
    np.testing.assert_allclose(out, expected, rtol=2e-3, atol=2e-3)


# ---- Planted bugs ----


@triton.jit
def out_of_bounds(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at)  # no mask
    tl.store(out + at, values, mask=at < n)


@triton.jit
def racing(x, out, BLOCK: tl.constexpr):
    values = tl.load(x + tl.arange(0, BLOCK))
    total = tl.sum(values, axis=0) + tl.program_id(0)
    tl.store(out, total)  # every block


@triton.jit
def summing(x, out, BLOCK: tl.constexpr):
    values = tl.load(x + tl.arange(0, BLOCK))
    tl.atomic_add(out, tl.sum(values, axis=0))


@pytest.mark.parametrize("target", TARGETS)
def test_an_access_out_of_bounds_is_reported_at_its_python_line(target):
    x, out = np.ones(1000, dtype=np.float32), np.zeros(1000, dtype=np.float32)
    with warpsmith.triton.virtual(target):
        with pytest.raises(warpsmith.SanitizeError, match="no mask") as caught:
            out_of_bounds[(4,)](x, out, 1000, BLOCK=256)
    (finding,) = caught.value.report.errors
    assert (finding.kind, finding.allocation) == ("out-of-bounds", "x")
    assert (finding.file, finding.line) == (__file__, line_of(out_of_bounds, "# no mask"))
    assert np.array_equal(out, x), "what was in bounds was copied back"


@pytest.mark.parametrize("target", TARGETS)
def test_a_race_is_reported_at_its_python_line(target):
    x, out = np.ones(256, dtype=np.float32), np.zeros(1, dtype=np.float32)
    with warpsmith.triton.virtual(target, raise_on_error=False) as session:
        racing[(3,)](x, out, BLOCK=256)
    (finding,) = session.errors
    line = line_of(racing, "# every block")
    assert (finding.kind, finding.file, finding.line) == ("race", __file__, line)
    assert (finding.related[0].file, finding.related[0].line) == (__file__, line)
    with pytest.raises(warpsmith.SanitizeError):
        session.raise_for_errors()


def test_atomics_do_not_race(random):
    x, out = np.ones(256, dtype=np.float32), np.zeros(1, dtype=np.float32)
    with warpsmith.triton.virtual():
        summing[(3,)](x, out, BLOCK=256)
    assert out[0] == 3 * 256


# ---- Arguments ----


@triton.jit
def transpose(x, out, rows, stride_x, stride_out, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    tl.store(out + columns * stride_out + row, tl.load(x + row * stride_x + columns))


def test_strides_and_views_are_as_on_a_gpu(random):
    base = random.standard_normal((8, 40)).astype(np.float32)
    view = base[:, 4:20]
    out = np.zeros((16, 8), dtype=np.float32)
    with warpsmith.triton.virtual():
        transpose[(8,)](Tensor(view), Tensor(out), 8, Tensor(view).stride(0), 8, COLUMNS=16)
    assert np.array_equal(out, view.T)


def test_one_array_may_be_two_arguments():
    x = np.arange(1000, dtype=np.float32)
    with warpsmith.triton.virtual():
        corpus.vector_add[(4,)](x, x, x, 1000, BLOCK=256)
        corpus.vector_add[(1,)](x[1:], x[1:], x[1:], 256, BLOCK=256)
    expected = 2 * np.arange(1000, dtype=np.float32)
    expected[1:257] *= 2
    assert np.array_equal(x, expected)


@triton.jit
def scalars(out, half, brain, single, small, large, flag):
    tl.store(out + 0, half.to(tl.float32))
    tl.store(out + 1, brain.to(tl.float32))
    tl.store(out + 2, single.to(tl.float32))
    tl.store(out + 3, small.to(tl.float32))
    tl.store(out + 4, (large >> 32).to(tl.float32))
    tl.store(out + 5, flag.to(tl.float32))


@triton.jit
def pairs(out, pair, BLOCK: tl.constexpr):
    tl.store(out, pair[0] + pair[1])


@triton.jit
def optional(x, out):
    if x is not None:
        tl.store(out, tl.load(x))
    else:
        tl.store(out, 7.0)


def test_scalars_tuples_and_missing_pointers():
    out = np.zeros(6, dtype=np.float32)
    with warpsmith.triton.virtual():
        scalars[(1,)](out, 0.5, -1.25, np.float32(3.5), -7, 5 << 32, True)
        assert np.array_equal(out, [0.5, -1.25, 3.5, -7, 5, 1])
        pairs[(1,)](out, (3, 4), BLOCK=1)
        assert out[0] == 7
        optional[(1,)](None, out)
        assert out[0] == 7
        optional[(1,)](np.array([9], dtype=np.float32), out)
        assert out[0] == 9


@triton.jit
def copy_descriptor(source, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), source.load([0, 0]).reshape(BLOCK))


@triton.jit
def matmul_of_descriptors(a, b, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a.load([m, k]), b.load([k, n]), sums)
    out.store([m, n], sums.to(tl.float16))


@pytest.mark.parametrize("target", TARGETS)
def test_descriptors_of_the_host(target, random):
    from triton.tools.tensor_descriptor import TensorDescriptor

    def described(array, block):
        return TensorDescriptor(Tensor(array), list(array.shape), [array.shape[1], 1], block)

    x, out = np.arange(64, dtype=np.float32).reshape(4, 16), np.zeros(64, dtype=np.float32)
    with warpsmith.triton.virtual(target):
        copy_descriptor[(1,)](described(x, [4, 16]), out, BLOCK=64)
    assert np.array_equal(out, x.reshape(-1))
    a, b, expected = corpus.products(random, 100, 72, 96)
    out = np.zeros_like(expected)
    with warpsmith.triton.virtual(target):
        descriptors = described(a, [64, 32]), described(b, [32, 64]), described(out, [64, 64])
        matmul_of_descriptors[(2, 2)](*descriptors, 96, BM=64, BN=64, BK=32)
    np.testing.assert_allclose(out, expected, rtol=2e-3, atol=2e-3)


def test_wrong_arguments_are_named():
    x, out = np.ones(256, dtype=np.float32), np.zeros(1, dtype=np.float32)
    with warpsmith.triton.virtual():
        with pytest.raises(TypeError, match="argument `x`: the type complex64"):
            summing[(1,)](x.astype(np.complex64), out, BLOCK=256)
        frozen = np.zeros(1, dtype=np.float32)
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="argument `out`: the kernel wrote to this array"):
            summing[(1,)](x, frozen, BLOCK=256)
    for wrong, text in [({"target": "sm_70"}, "target: 'sm_70'"), ({"autotune": "best"}, "autotune: 'best'")]:
        with pytest.raises(ValueError, match=text), warpsmith.triton.virtual(**wrong):
            pass
    with pytest.raises(warpsmith.UsageError, match="unknown GPU"), warpsmith.triton.virtual(device="virtual:x"):
        pass


def test_the_interpreter_of_triton_is_refused(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"), warpsmith.triton.virtual():
        pass


def test_blocks_of_threads_may_end_in_any_order():
    first, second = warpsmith.triton.virtual(), warpsmith.triton.virtual()
    active = triton.runtime.driver._active
    first.__enter__()
    inner = second.__enter__()
    first.__exit__(None, None, None)
    x, out = np.ones(256, dtype=np.float32), np.zeros(1, dtype=np.float32)
    summing[(1,)](x, out, BLOCK=256)
    second.__exit__(None, None, None)
    assert len(inner.reports) == 1 and triton.runtime.driver._active is active


def test_a_grid_without_blocks_does_nothing():
    x, out = np.ones(256, dtype=np.float32), np.zeros(1, dtype=np.float32)
    with warpsmith.triton.virtual() as session:
        summing[(0,)](x, out, BLOCK=256)
    assert not session.reports and out[0] == 0


MOVED = """
import triton
import triton.language as tl


@triton.jit
def first(x, out):
    tl.store(out, tl.load(x + 7))
"""


def test_the_same_kernel_in_another_file_has_the_name_of_its_own_file(tmp_path):
    import importlib.util

    x, out = np.ones(4, dtype=np.float32), np.zeros(1, dtype=np.float32)
    for name in ("one", "two"):
        file = tmp_path / f"{name}.py"
        file.write_text(MOVED)
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with warpsmith.triton.virtual(raise_on_error=False) as session:
            module.first[(1,)](x, out)
        assert [(it.file, it.line) for it in session.errors] == [(str(file), 8)]
        assert f"{name}.py:8" in str(session.reports[0])


# ---- Autotuning and the state of Triton ----


def configurations():
    return [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 1), (256, 4))]


@triton.autotune(configs=configurations(), key=["n"])
@triton.jit
def tuned_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@pytest.mark.parametrize(("autotune", "blocks"), [("first", {16}), ("modelled", {4, 16})])
def test_autotuned_kernels_run_once_with_one_configuration(autotune, blocks):
    x = np.arange(1000, dtype=np.float32)
    out = np.zeros_like(x)
    with warpsmith.triton.virtual(autotune=autotune) as session:
        tuned_add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, x, out, 1000)
    assert np.array_equal(out, 2 * x)
    assert len(session.reports) == 1 and session.reports[0].blocks in blocks
    assert tuned_add.cache == {} and len(tuned_add.configs) == 2


def test_triton_is_as_before_after_the_block():
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    active, run, tune = triton.runtime.driver._active, JITFunction.run, Autotuner.run
    x, out = np.ones(256, dtype=np.float32), np.zeros(1, dtype=np.float32)
    with warpsmith.triton.virtual() as outer:
        with warpsmith.triton.virtual("sm_90") as inner:
            summing[(1,)](x, out, BLOCK=256)
        summing[(1,)](x, out, BLOCK=256)
        with pytest.raises(ZeroDivisionError), warpsmith.triton.virtual():
            1 / 0
        summing[(1,)](x, out, BLOCK=256)
    assert (len(outer.reports), len(inner.reports)) == (2, 1)
    assert outer.reports[0].device == "virtual:a100" and inner.reports[0].device == "virtual:h200"
    assert (triton.runtime.driver._active, JITFunction.run, Autotuner.run) == (active, run, tune)
