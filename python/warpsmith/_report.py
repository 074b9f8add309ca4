"""Findings and reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ._native import WarpsmithError


@dataclass(frozen=True)
class Frame:
    """A place in a source file."""

    file: str
    line: int
    #: From 1; 0 if it is not known.
    column: int
    #: The function that contains the place; empty if it is not known.
    function: str


@dataclass(frozen=True)
class Related:
    """Another place that explains a finding: the other access of a race, or the origin of an undefined value."""

    label: str
    file: str | None
    line: int | None
    column: int | None


@dataclass(frozen=True)
class Finding:
    """A problem that a check reports."""

    #: The kind of the problem, such as ``out-of-bounds`` or ``race``.
    kind: str
    #: ``error``, ``warning`` or ``note``.
    severity: str
    message: str
    kernel: str
    #: The source file; ``None`` if the code has no line information.
    file: str | None
    line: int | None
    column: int | None
    #: The first block that shows the problem.
    block: tuple[int, int, int] | None
    #: The warp of the block.
    warp: int | None
    #: The lanes of the warp.
    lanes: tuple[int, ...]
    #: The number of the first thread in the block; x counts fastest.
    thread: int | None
    address: int | None
    #: The memory of the access: ``global``, ``shared`` or ``local``.
    space: str | None
    #: The buffer or variable of the access.
    allocation: str | None
    #: How often the problem occurred at this place.
    count: int
    related: tuple[Related, ...]
    #: All frames, innermost first: inlined functions, then their callers.
    frames: tuple[Frame, ...]
    #: The line of the PTX.
    ptx_line: int

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        return f"{where}{self.severity}: [{self.kind}] {self.message}"


@dataclass(frozen=True)
class Report:
    """What the virtual GPU found in one launch.

    ``print(report)`` prints what ``warpsmith sanitize`` prints, without the tables of ``--counters``.
    """

    kernel: str
    #: The virtual GPU, such as ``virtual:l4``.
    device: str
    findings: tuple[Finding, ...]
    #: Whether there is neither an error nor a warning, the launch completed, and ``expect`` holds.
    ok: bool
    #: Whether the kernel ran to its end.
    completed: bool
    #: The output of ``printf``.
    printed: str
    blocks: int
    warp_instructions: int
    #: Buffers that differ from ``expect``, one sentence each.
    mismatches: tuple[str, ...]
    #: What the compiler left out of the source.
    notes: tuple[str, ...]
    #: What each rule of ``suppressions`` did, one sentence each; also of rules that matched nothing.
    suppressions: tuple[str, ...]
    #: Modelled time in microseconds; ``None`` unless the launch was counted. It is never a measured time.
    modelled_us: float | None
    text: str = field(repr=False)

    @property
    def errors(self) -> list[Finding]:
        """The findings that are definite problems."""
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """The findings that are probable mistakes."""
        return [finding for finding in self.findings if finding.severity == "warning"]

    def raise_for_errors(self) -> None:
        """Raises :class:`SanitizeError` if there is an error, the launch did not complete, or ``expect`` fails."""
        if self.errors or not self.completed or self.mismatches:
            raise SanitizeError(self)

    def to_rows(self) -> list[dict[str, Any]]:
        """The findings as dictionaries, for ``pandas.DataFrame(report.to_rows())``."""
        return [asdict(finding) for finding in self.findings]

    def __str__(self) -> str:
        return self.text


class SanitizeError(WarpsmithError):
    """A kernel has errors. ``report`` has the findings."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.text)
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        return (SanitizeError, (self.report,))


def report_from(
    result: dict[str, Any],
    notes: list[str],
    is_own: Callable[[str], bool] = lambda file: True,
    suppressions: Sequence[str] = (),
) -> Report:
    """The report of a launch. ``is_own``: whether a file is the user's, for the place of a finding."""
    data = json.loads(result["report"])
    stats = data["stats"]
    return Report(
        kernel=result["kernel"],
        device=result["device"],
        findings=tuple(_finding(row, is_own) for row in data["findings"]),
        ok=result["clean"],
        completed=stats["completed"],
        printed=data["printed"],
        blocks=stats["blocks"],
        warp_instructions=stats["warp_instructions"],
        mismatches=tuple(result["mismatches"]),
        notes=tuple(notes),
        suppressions=tuple(suppressions),
        modelled_us=result["modelled_us"],
        text="\n".join([result["text"], *suppressions]),
    )


def _finding(row: dict[str, Any], is_own: Callable[[str], bool]) -> Finding:
    frames = _frames(row["place"])
    shown = _shown(frames, is_own)
    lanes = tuple(lane for lane in range(32) if row["lanes"] >> lane & 1)
    warp = row["warp"]
    related = []
    for other in row["related"]:
        place = _shown(_frames(other["place"]), is_own)
        related.append(
            Related(
                other["label"],
                place.file if place else None,
                place.line if place else None,
                place.column if place else None,
            )
        )
    return Finding(
        kind=row["kind"],
        severity=row["severity"],
        message=row["message"],
        kernel=row["kernel"],
        file=shown.file if shown else None,
        line=shown.line if shown else None,
        column=shown.column if shown else None,
        block=tuple(row["block"]) if row["block"] else None,  # type: ignore[arg-type]
        warp=warp,
        lanes=lanes,
        thread=32 * warp + lanes[0] if warp is not None and lanes else None,
        address=row["address"],
        space=str(row["space"]).lower() if row["space"] else None,
        allocation=row["allocation"],
        count=row["count"],
        related=tuple(related),
        frames=frames,
        ptx_line=row["place"]["ptx_line"],
    )


def _frames(place: dict[str, Any]) -> tuple[Frame, ...]:
    return tuple(Frame(it["file"], it["line"], it["column"], it["function"]) for it in place["frames"])


def _shown(frames: tuple[Frame, ...], is_own: Callable[[str], bool]) -> Frame | None:
    """The innermost frame in a file of the user, or else the innermost frame."""
    return next((frame for frame in frames if is_own(frame.file)), frames[0] if frames else None)
