"""Warpsmith: CUDA kernels on a virtual GPU, from Python.

``warpsmith.sanitize`` runs a CUDA or PTX kernel on the CPU under the checkers of the virtual GPU.
``warpsmith.triton.virtual`` and ``warpsmith.numba`` do the same for kernels of Triton and Numba.
``warpsmith.check``, ``bench`` and ``evolve`` run the program ``warpsmith``, which is part of the package.
No GPU is needed for any of them.
"""

from typing import Any

from ._cli import CommandError, Result, bench, check, evolve, program, run
from ._native import CompileError, ToolchainError, UnsupportedError, UsageError, WarpsmithError, __version__
from ._report import Finding, Frame, Related, Report, SanitizeError
from ._sanitize import Output, Raw, Scratch, out, raw, sanitize, scratch

__all__ = [
    "CommandError",
    "CompileError",
    "Finding",
    "Frame",
    "Output",
    "Raw",
    "Related",
    "Report",
    "Result",
    "SanitizeError",
    "Scratch",
    "ToolchainError",
    "UnsupportedError",
    "UsageError",
    "WarpsmithError",
    "__version__",
    "bench",
    "check",
    "evolve",
    "out",
    "program",
    "raw",
    "run",
    "sanitize",
    "scratch",
]


def __getattr__(name: str) -> Any:
    """Imports ``warpsmith.triton`` and ``warpsmith.numba`` when they are first used: they need other packages."""
    if name in ("triton", "numba"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
