"""Suites in the way of other projects run unchanged under ``pytest --warpsmith``. ``test_virtual_cuda.py`` has those that
need PyTorch."""

from pathlib import Path

import pytest
from test_plugin import run_pytest

SUITES = Path(__file__).parent / "suites"


def run_suite(name, folder, target):
    """Runs a suite, and returns its outcome. Every skipped test is told with its reason."""
    (folder / "test_kernels.py").write_bytes((SUITES / f"{name}.py").read_bytes())
    return run_pytest(folder, "--warpsmith", "--warpsmith-target", target)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_library_that_generates_its_kernels(target, tmp_path):
    done = run_suite("suite_generated", tmp_path, target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "11 passed, 1 skipped, 1 xfailed" in done.stdout, done.stdout
    assert "1 skipped: slow" in done.stdout, done.stdout


def test_the_suite_finds_an_error_in_a_generated_kernel(tmp_path):
    text = (SUITES / "suite_generated.py").read_text()
    wrong = text.replace("tl.store(out + i, {self._expression(0)}, i < n)", "tl.store(out + i, {self._expression(0)})")
    assert wrong != text
    (tmp_path / "test_kernels.py").write_text(wrong)
    done = run_pytest(tmp_path, "--warpsmith", "-k", "Elements")
    assert done.returncode == 1 and "[out-of-bounds]" in done.stdout, done.stdout
