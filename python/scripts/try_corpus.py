#!/usr/bin/env python3
"""Runs honest kernels with many seeds, and cheats, on one device.

Honest kernels must pass and cheats must be refused. CI runs the same kernels with one secret seed on the virtual GPU;
this script is for many seeds and for GPUs.

    python python/scripts/try_corpus.py twins cheats --device cuda --jobs 8
    python python/scripts/try_corpus.py families twins declared --device virtual:l4 --seeds 20 --jobs 2

groups:
  families  every preset of every built-in family, on a small problem of each type of numbers, all classes of inputs
  twins     the honest twins of corpus/cheats, by `check` with all seeds, and by `bench`
  cheats    the cheats of corpus/cheats, by `check` and by `bench` beside their twins
  declared  the pairs of corpus/cheats/declared, by `check` (the honest ones with all seeds) and `bench`

It prints a line for each command that did not end as expected and a line for each group. The exit code is 1 if a line
was printed for an honest kernel, or a cheat won.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

# A cheat wins if its time is below this share of its twin's time.
GAIN = 0.8
# Small problems of the built-in ops, together of all types of numbers. A family skips those that it does not support.
PROBLEMS = {
    "attention": [
        "b1h2s50d64-fp16", "b1h2s130d64-causal-e4m3", "b1h4kv2s80d128-bf16", "b1h2s130d128-e4m3", "b1h1s70d256-fp16",
        "b2h4kv2sq1sk300d128-fp16",
    ],
    "attention_backward": ["b1h2s50d64-fp16", "b1h4kv2s80d128-causal-bf16"],
    "gemm": ["m65-n72-k136-fp16-bias", "m16-n136-k264-bf16-none", "m65-n72-k144-e4m3-bias-gelu"],
    "quantise": ["batch1-heads2-seq130-head_dim64-fp16", "batch1-heads2-seq130-head_dim128-bf16-block64-rotate"],
    "rmsnorm": ["rows5-cols264-bf16", "rows3-cols4096-fp16"],
    "softmax": ["rows5-cols300-fp32", "rows3-cols4096-fp16"],
}  # fmt: skip

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("groups", nargs="+", choices=["families", "twins", "cheats", "declared"])
parser.add_argument("--repository", type=Path, default=Path(__file__).resolve().parents[2])
parser.add_argument("--program", help="default: target/release/warpsmith of the repository")
parser.add_argument("--device", default="virtual:l4")
parser.add_argument("--seeds", type=int, default=20)
parser.add_argument("--jobs", type=int, default=os.cpu_count())
parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one command")
parser.add_argument("--only", default="", help="only names that contain this text")
parser.add_argument("--quick", action="store_true", help="families: one class; twins: one problem and one class")
parser.add_argument("--by", choices=["check", "bench"], help="only this command (default: both)")
parser.add_argument("--end", type=float, default=float("inf"), help="start nothing after this time (date +%%s)")
options = parser.parse_args()
ROOT = options.repository.resolve()
CHEATS = ROOT / "corpus" / "cheats"
PROGRAM = options.program or str(ROOT / "target" / "release" / "warpsmith")
is_virtual = options.device.startswith("virtual")
place = Path(tempfile.mkdtemp(prefix="try-corpus-"))


def warpsmith(*arguments):
    """The exit code, standard output and standard error of the program."""
    command = [PROGRAM, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, errors="replace", timeout=options.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"did not end in {options.timeout:.0f} s"
    return done.returncode, done.stdout, done.stderr


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def kernels(name, families):
    """A folder for `--kernels` with families, each as (name, cheat, file)."""
    folder = place / "kernels" / name
    if folder.exists():
        return folder
    op = folder / "attention"
    shutil.copytree(CHEATS / "common", op / "common")
    for family, cheat, file in families:
        own = CHEATS / cheat / "kernel.toml"
        (op / family).mkdir()
        shutil.copy(own if own.is_file() else CHEATS / "kernel.toml", op / family / "kernel.toml")
        shutil.copy(CHEATS / cheat / file, op / family / "kernel.cu")
    return folder


def complaints(stdout):
    """The number of cases of a check, those that failed, and their complaints."""
    try:
        cases = json.loads(stdout)["cases"]
    except (ValueError, KeyError):
        return 0, 0, []
    failed = [case for case in cases if case["outcome"] not in ("passed", "skipped", "unsupported")]
    kinds = {complaint["kind"] for case in failed for complaint in case.get("complaints") or [{"kind": case["outcome"]}]}
    return len(cases), len(failed), sorted(kinds)


def check(folder, families, problems, *more):
    where = ["--kernels", folder] if folder else []
    where += [] if is_virtual else ["--limit", "15", "-j", "2"]
    problems = [word for problem in problems for word in ("--problem", problem)]
    return warpsmith("check", *families, *where, "--device", options.device, *problems, "--json", *more)


def bench(name, folder, families, problems):
    """The exit code, the failures by subject, the times by (family, problem) and the last line of an error."""
    run = place / "runs" / name
    shutil.rmtree(run, ignore_errors=True)
    problems = [word for problem in problems for word in ("--problem", problem)]
    short = [] if is_virtual else ["--processes", "1", "--seconds", "0.05", "--limit", "15"]
    code, _, error = warpsmith(
        "bench", *families, "--kernels", folder, "--device", options.device, *problems, "--baseline", "none",
        "--run-dir", run, *short,
    )  # fmt: skip
    failures, times = {}, {}
    log = run / "events.jsonl"
    for line in log.read_text(errors="replace").splitlines() if log.is_file() else []:
        event = json.loads(line)
        of = event.get("of") or {}
        family = of.get("subject", "").split(" ")[0]
        if event["kind"] == "candidate-failed":
            failures.setdefault(family, set()).add(event["failure"] + ": " + event["reason"][:160].replace("\n", " "))
        elif event["kind"] == "modelled":
            times[family, of["problem"]] = event["modelled"]["time_us"]
        elif event["kind"] == "sampled" and "hot" in json.dumps(event["sampled"].get("timer", "hot")):
            times[family, of["problem"]] = statistics.median(event["sampled"]["samples_ns"]) / 1000
    return code, failures, times, last_line(error)


def chosen(names):
    return [name for name in names if options.only in name]


def each(group, items, work):
    """Calls `work` for each item, on several threads. It returns a number of cases and lines to print."""
    started, cases, bad = time.monotonic(), 0, 0

    def timely(item):
        return work(item) if time.time() < options.end else (0, [f"? not run: {item}"])

    with ThreadPoolExecutor(options.jobs) as pool:
        for count, lines in pool.map(timely, items):
            cases += count
            bad += len([line for line in lines if line.startswith("!")])
            for line in lines:
                print(f"{group}: {line}", flush=True)
    seconds = time.monotonic() - started
    print(f"{group}: {len(items)} items, {cases} cases, {bad} bad, {seconds:.0f} s", flush=True)
    return bad


def honest(name, outcome):
    """The number of cases of a check that must pass, and a line if it did not."""
    code, out, error = outcome
    count, failed, kinds = complaints(out)
    if code == 0 and count:
        return count, []
    return count, [f"! {name}: check ends with {code}, {failed} of {count} cases failed: {kinds} {last_line(error)}"]


def families():
    listed = json.loads(warpsmith("kernels", "--json")[1])["families"]
    cases = [(it["op"], it["name"], problem) for it in listed for problem in PROBLEMS[it["op"]]]

    def work(case):
        op, name, problem = case
        more = ["--op", op, "--seeds", options.seeds, "--class", "normal" if options.quick else "all"]
        outcome = check(None, [name], [problem], *more)
        if outcome[0] != 0 and "does not support" in outcome[2] + outcome[1]:
            return 0, []
        return honest(f"{op}/{name} {problem}", outcome)

    return each("families", [case for case in cases if options.only in "/".join(case)], work)


def table():
    found = tomllib.loads((CHEATS / "cheats.toml").read_text())
    default = found["default"]["problems"]
    return {
        name: (cheat.get("problems", default), cheat.get("twin"), cheat.get("arguments", []), cheat)
        for name, cheat in found["cheats"].items()
    }


def twins():
    cheats = table()
    groups = {}
    for name in chosen(cheats):
        problems, twin, arguments, _ = cheats[name]
        problems = twin or problems if is_virtual else problems
        if options.quick:
            problems, arguments = problems[:1], ["--class", "normal"]
        groups.setdefault((tuple(problems), tuple(arguments)), []).append(name)
    parts = [
        (names[first : first + 6], problems, arguments)
        for (problems, arguments), names in groups.items()
        for first in range(0, len(names), 6)
    ]

    def work(part):
        names, problems, arguments = part
        folder = kernels(f"{names[0]}-twins", [(name, name, "honest.cu") for name in names])
        count, lines = 0, []
        if options.by != "bench":
            outcome = check(folder, names, problems, *arguments, "--seeds", options.seeds)
            count, lines = honest(", ".join(names), outcome)
        if options.by != "check":
            code, failures, times, error = bench(f"{names[0]}-twins", folder, names, problems)
            if code != 0 or len(times) != len(problems) * len(names):
                lines.append(f"! {', '.join(names)}: bench ends with {code}: {failures} {error}")
        return count, lines

    return each("twins", parts, work)


def check_cheat(name, folder, problems, arguments, refused_by):
    code, out, error = check(folder, [name], problems, *arguments)
    count, _, kinds = complaints(out)
    if code != 0:
        return count, [f"  {name}: check: {code} {kinds or last_line(error)}"]
    return count, [f"{'!' if 'check' in refused_by else '-'} {name}: check accepts it"]


def bench_cheat(name, folder, problems, is_slow):
    """Complaints about the cheat, which is timed in turns with its twin."""
    twin = f"{name}_honest"
    code, failures, times, error = bench(name, folder, [name, twin], problems)
    lines = [f"! {twin}: bench refuses it: {sorted(failures[twin])}"] if failures.get(twin) else []
    if failures.get(name):
        return [*lines, f"  {name}: bench: {sorted(failures[name])}"]
    ratios = [times[name, p] / times[twin, p] for p in problems if (name, p) in times and (twin, p) in times]
    if ratios and min(ratios) >= GAIN:
        return [*lines, f"{'-' if is_slow else '!'} {name}: bench accepts it; time over its twin's {min(ratios):.2f}"]
    return [*lines, f"! {name}: bench accepts it with {code}: times {times} {error}"]


def cheats():
    cheats = table()

    def work(name):
        problems, _, arguments, cheat = cheats[name]
        folder = kernels(name, [(name, name, "cheat.cu"), (f"{name}_honest", name, "honest.cu")])
        count, lines = 0, []
        if options.by != "bench":
            count, lines = check_cheat(name, folder, problems, arguments, cheat["refused_by"])
        if options.by != "check":
            is_slow = cheat.get("no_gain") or "bench" not in cheat["refused_by"]
            lines += bench_cheat(name, folder, problems, is_slow)
        return count, lines

    return each("cheats", chosen(cheats), work)


def declared():
    folders = [folder for folder in sorted((CHEATS / "declared").iterdir()) if options.only in folder.name]

    def work(folder):
        where = ["--device", options.device]
        short = [] if is_virtual else ["--processes", "1", "--seconds", "0.05"]
        lines = []
        outcome = warpsmith("check", folder / "honest.cu", *where, "--seeds", options.seeds, "--json")
        count, lines = honest(f"{folder.name}/honest", outcome)
        for file, command in [("honest", "bench"), ("cheat", "check"), ("cheat", "bench")]:
            more = [] if command == "check" else ["--baseline", "none", *short]
            more += [] if command == "check" else ["--run-dir", place / "runs" / f"{folder.name}-{file}"]
            code, _, error = warpsmith(command, folder / f"{file}.cu", *where, *more)
            if code != (1 if file == "cheat" else 0):
                lines.append(f"! {folder.name}/{file}: {command} ends with {code}: {last_line(error)}")
        return count, lines

    return each("declared", folders, work)


def main():
    groups = {"families": families, "twins": twins, "cheats": cheats, "declared": declared}
    bad = sum(groups[group]() for group in options.groups)
    shutil.rmtree(place, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
