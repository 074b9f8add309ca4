"""Measures how many CUDA files of other projects `warpsmith sanitize` compiles as they are.

    python python/scripts/compile_rate.py target/release/warpsmith PROJECT... [--files 12] [--seed 1] [--jobs 2]
        [--exclude 'b200|sm100']

A project is the folder of its sources. Flags of `sanitize` that its own build gives the compiler may follow it, separated
by commas: `../ThunderKittens,--std=c++20,--define=KITTENS_HOPPER,--arch=sm_90a`. The files are drawn at random from those that define a
kernel (headers too, if fewer other files do). The folders `include`, `Common` and `csrc` of the project are searched for
headers. For each project the script prints how many files compile, and for each file that does not, the first error.
Files for GPUs that the virtual GPU does not have (sm_100 and newer) are counted apart. `--exclude` leaves out files whose paths
match it: those that the project itself builds for such GPUs only.
"""

import argparse
import json
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KERNEL = re.compile(r"(?:__global__|CUTLASS_GLOBAL)\s+(?:\w+\s+|__\w+__\s*(?:\([^()]*\))?\s*)*void")
NEWER_GPU = re.compile(r"the code needs sm_1\d\d")
HEADERS = {"include", "Common", "csrc"}


def files_with_kernels(project: Path, least: int, exclude: str | None = None) -> list[Path]:
    def is_wanted(path: Path) -> bool:
        if exclude and re.search(exclude, str(path.relative_to(project))):
            return False
        text = path.read_text(errors="replace")
        # Files for ROCm are no CUDA files.
        return bool(KERNEL.search(text)) and "#include <hip/" not in text

    def with_kernels(pattern: str) -> list[Path]:
        return sorted(path for path in project.rglob(pattern) if is_wanted(path))

    found = with_kernels("*.cu")
    return found if len(found) >= least else found + with_kernels("*.cuh")


def header_folders(project: Path) -> list[Path]:
    near = [*project.glob("*"), *project.glob("*/*")]
    return [project, *sorted(path for path in near if path.is_dir() and path.name in HEADERS)]


def first_error(program: str, file: Path, project: Path, flags: list[str]) -> str | None:
    """Returns None if the file compiles."""
    # The launch is not made: no kernel has this name.
    command = [program, "sanitize", str(file), "--json", "--grid", "1", "--block", "32", *flags]
    command += ["--kernel", "no_kernel_has_this_name"]
    for folder in header_folders(project):
        command += ["--include", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True)
    try:
        document = json.loads(answer.stdout)
    except json.JSONDecodeError:
        return f"no answer, exit code {answer.returncode}: {answer.stderr.strip()[-200:]}"
    diagnostics = document.get("diagnostics") or []
    errors = [it for it in diagnostics if it["severity"] == "error"]
    if not errors:
        return None
    place = errors[0].get("place") or {}
    return f"{errors[0]['message']} ({place.get('file', '?')}:{place.get('line', '?')})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("projects", nargs="+", help="folder of sources, and flags of sanitize after commas")
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--exclude", help="regular expression of paths that are not drawn")
    options = parser.parse_args()
    compiled = tried = newer = 0
    for text in options.projects:
        folder, *flags = text.split(",")
        project = Path(folder)
        files = files_with_kernels(project, options.files, options.exclude)
        chosen = random.Random(options.seed).sample(files, min(options.files, len(files)))
        with ThreadPoolExecutor(options.jobs) as pool:
            errors = list(pool.map(lambda file: first_error(options.program, file, project, flags), chosen))
        right = sum(error is None for error in errors)
        unsupported = sum(error is not None and bool(NEWER_GPU.match(error)) for error in errors)
        rest = len(chosen) - unsupported
        compiled, tried, newer = compiled + right, tried + rest, newer + unsupported
        print(f"{project.name}: {right} of {rest} files compile, {unsupported} need a newer GPU", flush=True)
        for file, error in sorted(zip(chosen, errors)):
            if error:
                print(f"    {file.relative_to(project)}: {error}", flush=True)
    print(f"all: {compiled} of {tried}, {newer} need a newer GPU")


if __name__ == "__main__":
    main()
