"""``pytest --warpsmith``: kernels of a project's tests run on the virtual GPU."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")

TESTS = """
import numpy as np
import pytest
import triton
import triton.language as tl


@triton.jit
def copy(x, out, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n) if MASKED else tl.load(x + at)
    tl.store(out + at, values, mask=at < n)


def run(masked):
    x, out = np.ones(100, dtype=np.float32), np.zeros(100, dtype=np.float32)
    copy[(1,)](x, out, 100, MASKED=masked, BLOCK=128)
    assert out.all()


def test_right():
    run(True)


def test_wrong():
    run(False)


def test_wrong_and_hidden():
    with pytest.raises(Exception):
        run(False)


@pytest.mark.warpsmith_off
def test_without():
    with pytest.raises(Exception):
        run(True)


def test_no_kernel():
    pass
"""


def run_pytest(folder, *flags):
    points = importlib.metadata.entry_points(group="pytest11")
    plugin = [] if any(point.name == "warpsmith" for point in points) else ["-p", "warpsmith.pytest_plugin"]
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *plugin, *flags, "test_kernels.py"]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, env=os.environ | {"COLUMNS": "120"})


def test_the_plugin_fails_tests_with_error_findings(tmp_path):
    (tmp_path / "test_kernels.py").write_text(TESTS)
    done = run_pytest(tmp_path, "--warpsmith")
    text = done.stdout
    assert done.returncode == 1, text + done.stderr
    for name, outcome in {
        "test_right": "PASSED",
        "test_wrong": "FAILED",
        "test_wrong_and_hidden": "FAILED",
        "test_without": "PASSED",
        "test_no_kernel": "PASSED",
    }.items():
        assert f"::{name} {outcome}" in text, text
    assert "[out-of-bounds]" in text and "test_kernels.py:11:" in text
    other = run_pytest(tmp_path, "--warpsmith", "--warpsmith-target", "sm_90", "-k", "test_right")
    assert other.returncode == 0, other.stdout


def test_without_the_flag_nothing_changes(tmp_path):
    (tmp_path / "test_kernels.py").write_text(TESTS)
    done = run_pytest(tmp_path, "-k", "test_no_kernel or test_without")
    assert done.returncode == 0, done.stdout


KNOWN = """
[[suppress]]
kind = "out-of-bounds"
source = "tl.load(x + at)"
reason = "the padding of x is large enough"

[[suppress]]
kind = "race"
kernel = "copy"
reason = "was mended"
"""


def test_known_findings_do_not_fail_a_test_and_are_told(tmp_path):
    (tmp_path / "test_kernels.py").write_text(TESTS)
    (tmp_path / "known.toml").write_text(KNOWN)
    done = run_pytest(tmp_path, "--warpsmith", "--warpsmith-suppressions", "known.toml", "-k", "right or test_wrong")
    assert "::test_right PASSED" in done.stdout and "::test_wrong PASSED" in done.stdout, done.stdout + done.stderr
    assert "suppressed: 2 findings [out-of-bounds] with source `tl.load(x + at)`: the padding" in done.stdout
    assert "unused suppression: [race] with kernel `copy` matched no finding; remove it" in done.stdout
    missing = run_pytest(tmp_path, "--warpsmith", "--warpsmith-suppressions", "none.toml")
    assert missing.returncode == 4 and "--warpsmith-suppressions: cannot read none.toml" in missing.stderr


def test_a_block_warns_of_rules_that_match_nothing(tmp_path):
    import warpsmith.triton

    (tmp_path / "known.toml").write_text(KNOWN)
    with pytest.warns(UserWarning, match=r"unused suppression: \[race\]") as warned:
        with warpsmith.triton.virtual(suppressions=tmp_path / "known.toml") as session:
            assert all(line.startswith("unused") for line in session.suppressions)
    assert len(warned) == 2


#: A suite as those of tinygrad: a helper compares every op with numpy, on many shapes.
OPS = '''
import unittest
import numpy as np
import triton
import triton.language as tl


@triton.jit
def unary(x, out, n, OP: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at, at < n)
    if OP == "relu":
        value = tl.maximum(value, 0.0)
    elif OP == "exp":
        value = tl.exp(value)
    elif OP == "sigmoid":
        value = 1 / (1 + tl.exp(-value))
    tl.store(out + at, value, at < n)


@triton.jit
def reduce(x, out, cols, OP: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.load(x + tl.program_id(0) * cols + at, at < cols, other=float("-inf") if OP == "max" else 0.0)
    tl.store(out + tl.program_id(0), tl.max(row) if OP == "max" else tl.sum(row))


@triton.jit
def matmul(a, b, out, M, N, K, B: tl.constexpr):
    m, n, k = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for start in range(0, K, B):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :], (m < M)[:, None] & (start + k < K)[None, :], other=0.0)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], (start + k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
    tl.store(out + m[:, None] * N + n[None, :], acc, (m < M)[:, None] & (n < N)[None, :])


def helper_test_op(shapes, numpy_fxn, kernel_fxn, atol=1e-6, rtol=1e-4):
    random = np.random.default_rng(1337)
    tensors = [random.uniform(-2, 2, shape).astype(np.float32) for shape in shapes]
    np.testing.assert_allclose(kernel_fxn(*tensors), numpy_fxn(*tensors), atol=atol, rtol=rtol)


def run_unary(op, x):
    out = np.empty_like(x)
    unary[(triton.cdiv(x.size, 64),)](x, out, x.size, OP=op, B=64)
    return out


def run_reduce(op, x):
    out = np.empty(x.shape[0], dtype=np.float32)
    reduce[(x.shape[0],)](x, out, x.shape[1], OP=op, B=triton.next_power_of_2(x.shape[1]))
    return out


def run_matmul(a, b):
    out = np.empty((a.shape[0], b.shape[1]), dtype=np.float32)
    matmul[(triton.cdiv(a.shape[0], 16), triton.cdiv(b.shape[1], 16))](a, b, out, *out.shape, a.shape[1], B=16)
    return out


class TestOps(unittest.TestCase):
    def test_relu(self):
        for shape in ((1,), (45, 65)):
            helper_test_op([shape], lambda x: np.maximum(x, 0), lambda x: run_unary("relu", x))

    def test_exp(self):
        helper_test_op([(45, 65)], np.exp, lambda x: run_unary("exp", x))

    def test_sigmoid(self):
        helper_test_op([(3, 4, 5)], lambda x: 1 / (1 + np.exp(-x)), lambda x: run_unary("sigmoid", x))

    def test_sum(self):
        for shape in ((1, 1), (3, 100)):
            helper_test_op([shape], lambda x: x.sum(1), lambda x: run_reduce("sum", x), atol=1e-5)

    def test_max(self):
        helper_test_op([(5, 33)], lambda x: x.max(1), lambda x: run_reduce("max", x))

    def test_matmul(self):
        helper_test_op([(17, 40), (40, 33)], np.matmul, run_matmul, atol=1e-4)

    def test_copy(self):
        helper_test_op([(3, 100)], lambda x: x, lambda x: run_unary("copy", x))
'''


def test_a_suite_that_compares_ops_with_numpy_runs_unchanged(tmp_path):
    (tmp_path / "test_kernels.py").write_text(OPS)
    done = run_pytest(tmp_path, "--warpsmith")
    assert done.returncode == 0 and "7 passed" in done.stdout, done.stdout + done.stderr
    # The same suite with a bug that the comparison with numpy does not see.
    (tmp_path / "test_kernels.py").write_text(OPS.replace("value = tl.load(x + at, at < n)", "value = tl.load(x + at)"))
    done = run_pytest(tmp_path, "--warpsmith")
    assert done.returncode == 1 and "[out-of-bounds]" in done.stdout, done.stdout
    assert "TestOps::test_sum PASSED" in done.stdout and "TestOps::test_relu FAILED" in done.stdout, done.stdout
