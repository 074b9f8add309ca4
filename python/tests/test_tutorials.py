"""The official Triton tutorials, unmodified, on the virtual GPU: under ``virtual()`` and under ``pytest --warpsmith``.

``WARPSMITH_TRITON_TUTORIALS`` names the folder ``python/tutorials`` of a clone of Triton; PyTorch is needed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_plugin import run_pytest

FOLDER = os.environ.get("WARPSMITH_TRITON_TUTORIALS")
if FOLDER is None:
    pytest.skip("WARPSMITH_TRITON_TUTORIALS names no folder with Triton's tutorials", allow_module_level=True)

#: Tutorials that run as a script, and the text that shows that they have compared their results.
SCRIPTS = {
    "01-vector-add": "The maximum difference between torch and triton is 0.0",
    "02-fused-softmax": "",
    "03-matrix-multiplication": "Triton and Torch match",
    "04-low-memory-dropout": "output (seed = 512)",
    "05-layer-norm": "",
    "07-extern-functions": "The maximum difference between torch and triton is",
    "08-grouped-gemm": "",
    "10-block-scaled-matmul": "requires GPU support for block scaled matmul",
    "11-programmatic-dependent-launch": "PDL is not supported on this device",
}
#: What a script prints for sm_90 instead.
NEWER = {"11-programmatic-dependent-launch": "verification naive vs: add: \u2705"}

RUN = """
import os, runpy, sys
import torch, warpsmith.triton
path = sys.argv.pop(1)
with warpsmith.triton.virtual(os.environ["TARGET"]) as session:
    runpy.run_path(path, run_name="__main__")
assert session.ok
"""

#: The driver of a tutorial in a test. Its own sizes need hours or gigabytes: 8192 x 8192 x 512, ten thousand times.
TEST = """
import importlib, os, runpy, sys
import torch
name = os.environ["TUTORIAL"]
def test_script(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(os.path.join(os.environ["FOLDER"], name + ".py"), run_name="__main__")
def test_persistent():
    sys.path.insert(0, os.environ["FOLDER"])
    tutorial = importlib.import_module(name)
    tutorial.validate(32, 32, 32, torch.float16)
    tutorial.validate(256, 256, 128, torch.float16)
"""


def environment(name, target):
    return os.environ | {"TUTORIAL": name, "FOLDER": FOLDER, "TARGET": target, "MPLBACKEND": "Agg"}


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_tutorial_runs_in_a_block(name, target, tmp_path):
    line = [sys.executable, "-c", RUN, str(Path(FOLDER) / f"{name}.py")]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=environment(name, target))
    expected = NEWER.get(name, SCRIPTS[name]) if target == "sm_90" else SCRIPTS[name]
    assert done.returncode == 0 and expected in done.stdout, done.stdout + done.stderr
    assert "\u274c" not in done.stdout, done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_tutorial_runs_in_a_test(name, tmp_path, monkeypatch):
    for key, value in environment(name, "sm_80").items():
        monkeypatch.setenv(key, value)
    (tmp_path / "test_kernels.py").write_text(TEST)
    done = run_pytest(tmp_path, "--warpsmith", "-k", "script")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_the_attention_tutorial_runs(target, tmp_path):
    (tmp_path / "conftest.py").write_text("")
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "warpsmith.pytest_plugin", "-q"]
    # For sm_90 the descriptor of V in FP8 is no whole array, which is not supported.
    types = "fp16-bwd" if target == "sm_90" else "(fp16-bwd or fp8-fwd)"
    line += ["--warpsmith", "--warpsmith-target", target, "-k", f"64-128-2-1 and {types}"]
    line += [str(Path(FOLDER) / "06-fused-attention.py")]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, env=environment("", target))
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_the_persistent_tutorial_runs(target, tmp_path, monkeypatch):
    for key, value in environment("09-persistent-matmul", target).items():
        monkeypatch.setenv(key, value)
    (tmp_path / "test_kernels.py").write_text(TEST)
    done = run_pytest(tmp_path, "--warpsmith", "--warpsmith-target", target, "-s", "-k", "persistent")
    assert done.returncode == 0 and "\u274c" not in done.stdout, done.stdout + done.stderr
    assert "Persistent: \u2705" in done.stdout and "cuBLAS: \u2705" in done.stdout, done.stdout
