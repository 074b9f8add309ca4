"""A block in which kernels of another library run on the virtual GPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ._memory import Buffers
from . import _native
from ._report import Finding, Report
from ._sanitize import known_findings

#: The virtual GPU for each target.
_DEVICES = {"sm_80": "virtual:a100", "sm_86": "virtual:l4", "sm_89": "virtual:l4", "sm_90": "virtual:h200"}


def usual_device(target: str) -> str:
    """The virtual GPU for a target."""
    if target not in _DEVICES:
        raise ValueError(f"target: {target!r} is not one of {', '.join(_DEVICES)}")
    return _DEVICES[target]


class Session:
    """The launches inside one block."""

    def __init__(
        self, target: str, device: str, options: dict[str, Any], raise_on_error: bool, suppressions: Any = None
    ) -> None:
        #: The architecture that kernels are compiled for.
        self.target = target
        #: The virtual GPU.
        self.device = device
        #: The reports of all launches, in order.
        self.reports: list[Report] = []
        #: What was left out because the virtual GPU cannot do it, one sentence each.
        self.skipped: list[str] = []
        self.raise_on_error = raise_on_error
        self._known = known_findings(suppressions)
        #: Rules that several blocks share are told by their owner.
        self._tells = self._known is not None and not isinstance(suppressions, _native.KnownFindings)
        self.options = options | {"suppressions": self._known}

    @property
    def errors(self) -> list[Finding]:
        """The findings of all launches that are definite problems."""
        return [finding for report in self.reports for finding in report.errors]

    @property
    def ok(self) -> bool:
        """Whether every launch completed without an error and without a warning."""
        return all(report.ok for report in self.reports)

    @property
    def suppressions(self) -> list[str]:
        """What each rule of ``suppressions`` did so far, one sentence each; also of rules that matched nothing."""
        return [line for _, line in self._known.uses()] if self._known else []

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Warns of rules that matched nothing in the block, unless the block fails."""
        yield
        if self._tells and self._known:
            for matched, line in self._known.uses():
                if not matched:
                    warnings.warn(line, stacklevel=4)

    def raise_for_errors(self) -> None:
        """Raises :class:`warpsmith.SanitizeError` for the first launch with an error."""
        for report in self.reports:
            report.raise_for_errors()

    def finish(self, report: Report, buffers: Buffers, contents: Sequence[bytes | None]) -> None:
        """Keeps the report of a launch, and copies its results into the arrays."""
        self.reports.append(report)
        buffers.write_back(contents)
        if self.raise_on_error:
            report.raise_for_errors()
