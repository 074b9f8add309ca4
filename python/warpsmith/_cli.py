"""Runs the program ``warpsmith``, which is part of the package, and returns its JSON documents."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from typing import Any

from ._native import WarpsmithError

#: Which list of a document has the rows, by command.
_ROWS = {"check": ("cases",), "bench": ("measured", "modelled"), "evolve": ("trials",)}


class CommandError(WarpsmithError):
    """The program refused to run, or could not: a wrong flag or name, or something that is missing."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        return (CommandError, (str(self), self.exit_code))


@dataclass(frozen=True)
class Result:
    """What a command printed. ``result["cases"]`` reads its JSON document."""

    command: tuple[str, ...]
    #: 0: success, 1: a problem was found, 4: incomplete.
    exit_code: int
    #: The JSON document; its schema is in the book.
    document: dict[str, Any] = field(repr=False)
    #: The messages for people.
    messages: str = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether the command succeeded and found no problem."""
        return self.exit_code == 0

    def __getitem__(self, name: str) -> Any:
        return self.document[name]

    def to_rows(self) -> list[dict[str, Any]]:
        """The rows of the document, one dictionary each, for ``pandas.DataFrame(result.to_rows())``.

        Nested values get names with dots: ``interval_us.low``. Measured and modelled times have different names.
        """
        lists = _ROWS.get(self.command[0], ())
        return [_flat(row) for name in lists for row in self.document.get(name) or ()]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": it for inner, it in _flat(value).items()}
        else:
            flat[name] = value
    return flat


def program() -> str:
    """The path of the program ``warpsmith``: ``WARPSMITH_PROGRAM``, that of this package, or the first on the path."""
    named = os.environ.get("WARPSMITH_PROGRAM")
    if named:
        return named
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    try:
        folders.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    except (KeyError, ValueError):
        pass
    # `pip install --target DIR` places programs in DIR/bin.
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for folder in folders:
        path = os.path.join(folder, "warpsmith")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("warpsmith")
    if found:
        return found
    raise WarpsmithError(
        "the program `warpsmith` was not found\n"
        "hint: install the wheel, which has it, or name it with the environment variable WARPSMITH_PROGRAM"
    )


def run(command: str, *words: Any, **flags: Any) -> Result:
    """Runs a command of the program with ``--json`` and returns its document.

    ``run("check", "mma", problem=["mission"], sanitize=True)`` is ``warpsmith check mma --problem mission --sanitize``.
    A list repeats a flag, ``True`` is a flag without a value, ``None`` and ``False`` leave it out.
    """
    line = [command, *(str(word) for word in words), *_flags(flags)]
    whole = [program(), *line, "--json"]
    try:
        done = subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise WarpsmithError(f"cannot start the program {whole[0]}: {error}") from error
    document = _last_document(done.stdout)
    if document is None or str(document.get("schema", "")).startswith("warpsmith.error/"):
        raise CommandError(_message(document, done), done.returncode)
    return Result(tuple(line), done.returncode, document, done.stderr)


def _message(document: dict[str, Any] | None, done: subprocess.CompletedProcess[str]) -> str:
    if document is None:
        return done.stderr.strip() or f"the program ended with {done.returncode} and without a document"
    hint = document.get("hint")
    return document["error"] + (f"\nhint: {hint}" if hint else "")


def _last_document(text: str) -> dict[str, Any] | None:
    """The last JSON document of the output. A run may print its own and then an error."""
    decoder, at, last = json.JSONDecoder(), 0, None
    while True:
        at = text.find("{", at)
        if at < 0:
            return last
        try:
            last, at = decoder.raw_decode(text, at)
        except ValueError:
            return last


def _flags(flags: dict[str, Any]) -> list[str]:
    words = []
    for name, value in flags.items():
        flag = "--" + name.strip("_").replace("_", "-")
        if isinstance(value, dict):
            value = [f"{key}={it}" for key, it in value.items()]
        for it in value if isinstance(value, (list, tuple)) else [value]:
            if it is True:
                words.append(flag)
            elif it is not None and it is not False:
                words.append(f"{flag}={os.fspath(it) if isinstance(it, os.PathLike) else it}")
    return words


def check(*families: str | os.PathLike[str], **flags: Any) -> Result:
    """Checks that kernels are correct: ``warpsmith check``. A family, or a CUDA file that declares its op."""
    return run("check", *(os.fspath(family) for family in families), **flags)


def bench(*families: str | os.PathLike[str], **flags: Any) -> Result:
    """Times kernels and their baselines: ``warpsmith bench``. Without a GPU the times are modelled."""
    return run("bench", *(os.fspath(family) for family in families), **flags)


def evolve(family: str | None = None, **flags: Any) -> Result:
    """Searches the settings of a family: ``warpsmith evolve``."""
    return run("evolve", *([family] if family else []), **flags)
