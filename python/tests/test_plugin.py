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
