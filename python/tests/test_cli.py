"""``warpsmith.check``, ``bench`` and ``evolve``: the program's documents as Python objects."""

import pickle
import subprocess

import pytest

import warpsmith

PROBLEM = "b1h1s32d64-fp16"


def test_the_program_is_the_real_one():
    printed = subprocess.run([warpsmith.program(), "--version"], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == f"warpsmith {warpsmith.__version__}"


def test_check_returns_the_cases():
    result = warpsmith.check("mma", preset="small", problem=PROBLEM, class_="normal", device="virtual")
    assert result.ok and result.exit_code == 0
    assert result["schema"] == "warpsmith.check/1" and result["complete"]
    (row,) = result.to_rows()
    assert row["family"] == "mma" and row["outcome"] == "passed" and row["judgement.error"] <= row["judgement.limit"]


def test_bench_and_evolve_return_rows(tmp_path):
    result = warpsmith.bench("mma", preset="small", problem=[PROBLEM], device="virtual", run_dir=tmp_path / "bench")
    rows = result.to_rows()
    assert result.ok and rows and all(row["modelled_us"] > 0 for row in rows)
    found = warpsmith.evolve("mma", problem=PROBLEM, budget=1, device="virtual", run_dir=tmp_path / "evolve")
    assert found.ok and found["run"] == str(tmp_path / "evolve") and len(found.to_rows()) >= 1


def test_usage_errors_raise_with_the_message_of_the_program():
    with pytest.raises(warpsmith.CommandError, match="hint: .*mma") as caught:
        warpsmith.check("mna", problem=PROBLEM)
    assert caught.value.exit_code == 2
    assert pickle.loads(pickle.dumps(caught.value)).exit_code == 2
    with pytest.raises(warpsmith.CommandError, match="--no-such-flag"):
        warpsmith.bench("mma", no_such_flag=True)
    with pytest.raises(warpsmith.CommandError, match="virtual:zz|unknown GPU"):
        warpsmith.evolve("mma", device="virtual:zz")


def test_a_missing_program_is_an_error(monkeypatch):
    monkeypatch.setenv("WARPSMITH_PROGRAM", "/no/such/program")
    with pytest.raises(warpsmith.WarpsmithError, match="/no/such/program"):
        warpsmith.check("mma")
