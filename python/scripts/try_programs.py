"""Builds and runs CUDA programs that others wrote on the virtual GPU, and lists which passed.

The programs are folders of HeCBench (`src/NAME-cuda`), fetched by the user:

    python3 python/scripts/try_programs.py --collection HeCBench --random 40 --seed 1 --smaller --nvcc nvcc --out results.json

A program passes if its command of `make run` ends with 0 under `warpsmith exec`, and what it prints says that the result is
right and not that it is wrong. `ran` is a program that says neither. Findings are told beside the result. Counts of
repetitions are reduced to 1 or 2, because they change no result. `--smaller` divides other large arguments first, and takes
the original ones if the program does not accept that. What takes longer than `--limit` seconds, also without checks, counts
as `time`, not as failed.
"""

import argparse
import json
import os
import random
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

BAD = re.compile(r"\b(fail(ed|ure)?|mismatch|incorrect|wrong)\b", re.IGNORECASE)
GOOD = re.compile(r"\b(pass(ed)?|success(ful)?|correct|verified|ok)\b", re.IGNORECASE)


def programs(collection: Path) -> list[str]:
    return sorted(folder.name.removesuffix("-cuda") for folder in (collection / "src").glob("*-cuda"))


def run(command, cwd, limit):
    """Returns the exit code (None: too long), stdout, stderr and the seconds."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        # The program is a child of warpsmith.
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = None
    return code, out, err, time.monotonic() - began


def make(options, folder, *words):
    flags = [f"CC={options.nvcc} -cudart shared", "ARCH=compute_90", "EXTRA_CFLAGS=-lineinfo"]
    code, out, err, seconds = run(["make", *flags, *words], folder, options.build_limit)
    return code, out + err, seconds


def command_of_run(text: str) -> list[str] | None:
    """The command of the rule `run`, from the output of `make -n run`."""
    lines = [line for line in text.splitlines() if line.strip().startswith("./")]
    return shlex.split(re.split("[>|;]", lines[-1])[0]) if lines else None


def with_fewer_repeats(words: list[str]) -> list[str]:
    """The last argument of most programs is how often the kernel runs."""
    if len(words) > 1 and words[-1].isdigit() and int(words[-1]) > 2:
        return [*words[:-1], "2" if int(words[-1]) < 1000 else "1"]
    return words


def smaller(word: str) -> str:
    if not word.isdigit() or int(word) < 256:
        return word
    return str(max(64, int(word) // (8 if int(word) < 4096 else 64)))


def attempt(options, folder: Path, words: list[str], check: str) -> dict:
    prefix = [*shlex.split(options.warpsmith), "exec", "--device", options.device, "--check", check, "--"]
    code, out, err, seconds = run([*prefix, *words], folder, options.limit)
    row = {"command": " ".join(words), "check": check, "seconds": round(seconds, 1)}
    counts = re.search(r": (\d+) errors?, (\d+) warnings?, ", err)
    row["findings"] = int(counts.group(1)) if counts else 0
    if code is None:
        row["result"] = "time"
    elif BAD.search(out) or re.search(r"the program (ended with code|was ended by signal)", err):
        row["result"] = "failed"
        row["why"] = reason(out + err)
    else:
        row["result"] = "passed" if GOOD.search(out) else "ran"
    row["missing"] = sorted(set(re.findall(r"does not have (\w+)", err)))
    return row


def try_program(options, name: str) -> dict:
    folder = options.collection / "src" / f"{name}-cuda"
    code, out, seconds = make(options, folder)
    if code != 0:
        return {"program": name, "result": "not built", "why": last_error(out), "seconds": round(seconds)}
    command = command_of_run(make(options, folder, "-n", "run")[1])
    if command is None:
        return {"program": name, "result": "no command"}
    words = with_fewer_repeats(command)
    small = [words[0], *map(smaller, words[1:])] if options.smaller else words
    row = attempt(options, folder, small, options.check)
    if row["result"] == "time" and options.check != "none":
        row = attempt(options, folder, small, "none")
    if row["result"] == "failed" and small != words:
        row = attempt(options, folder, words, options.check)
    return {"program": name, **row}


def last_error(text: str) -> str:
    errors = [line for line in text.splitlines() if "error" in line or "No such file" in line]
    return (errors or text.splitlines() or [""])[0][:200]


def reason(text: str) -> str:
    lines = text.splitlines()
    marked = [line for line in lines if line.startswith(("error", "warpsmith:")) or BAD.search(line)]
    return " | ".join((marked or lines[-2:])[:3])[:400]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collection", type=Path, required=True)
    parser.add_argument("--random", type=int, help="number of programs to select")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--warpsmith", default="warpsmith")
    parser.add_argument("--device", default="virtual:h200")
    parser.add_argument("--check", default="all")
    parser.add_argument("--smaller", action="store_true", help="divide large arguments")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--build-limit", type=float, default=300)
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.collection = options.collection.resolve()
    names = options.names or programs(options.collection)
    if options.random:
        names = random.Random(options.seed).sample(names, min(options.random, len(names)))
    rows = []
    for name in names:
        rows.append(try_program(options, name))
        print(json.dumps(rows[-1]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n")
    results = [row["result"] for row in rows]
    print({result: results.count(result) for result in sorted(set(results))})


if __name__ == "__main__":
    main()
