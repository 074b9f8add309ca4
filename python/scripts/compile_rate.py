"""Measures how many CUDA files of other projects `warpsmith sanitize` compiles as they are.

    python python/scripts/compile_rate.py target/release/warpsmith FOLDER... [--files 12] [--seed 1] [--std c++20] [--define NAME]

Each folder has the sources of one project. The files are drawn at random from those that define a kernel. The folders
`include`, `Common` and `csrc` of the project are searched for headers. For each project the script prints how many files
compile, and for each file that does not, the first error.
"""

import argparse
import json
import random
import re
import subprocess
from pathlib import Path

KERNEL = re.compile(r"__global__\s+(?:\w+\s+|__\w+__\s*(?:\([^()]*\))?\s*)*void")
HEADERS = {"include", "Common", "csrc"}


def files_with_kernels(project: Path) -> list[Path]:
    found = [path for path in project.rglob("*.cu") if KERNEL.search(path.read_text(errors="replace"))]
    return sorted(found)


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
    parser.add_argument("projects", nargs="+", type=Path)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--std", help="standard of C++ (default: the program's)")
    parser.add_argument("--define", action="append", default=[], help="macro that the project's own build defines")
    options = parser.parse_args()
    flags = ["--arch", options.arch, *(f"--define={name}" for name in options.define)]
    if options.std:
        flags += ["--std", options.std]
    compiled = tried = 0
    for project in options.projects:
        files = files_with_kernels(project)
        chosen = random.Random(options.seed).sample(files, min(options.files, len(files)))
        errors = {file: first_error(options.program, file, project, flags) for file in chosen}
        right = sum(error is None for error in errors.values())
        compiled, tried = compiled + right, tried + len(chosen)
        print(f"{project.name}: {right} of {len(chosen)} files compile ({len(files)} have kernels)")
        for file, error in sorted(errors.items()):
            if error:
                print(f"    {file.relative_to(project)}: {error}")
    print(f"all: {compiled} of {tried}")


if __name__ == "__main__":
    main()
