"""Warpsmith: CUDA kernels on a virtual GPU, from Python.

``warpsmith.sanitize`` runs a CUDA or PTX kernel on the CPU under the checkers of the virtual GPU.
``warpsmith.triton.virtual`` and ``warpsmith.numba`` do the same for kernels of Triton and Numba.
``warpsmith.attention`` computes attention: on CUDA tensors of PyTorch on the GPU, on arrays on the virtual GPU.
``warpsmith.check``, ``bench`` and ``evolve`` run the program ``warpsmith``, which is part of the package.
None of them needs a GPU.
"""

from typing import Any

from ._attention import attention, flash_attn_func
from ._cli import CommandError, Result, bench, check, evolve, program, run
from ._native import CompileError, ToolchainError, UnsupportedError, UsageError, WarpsmithError, __version__
from ._report import Finding, Frame, Related, Report, SanitizeError
from ._sanitize import Output, Raw, Scratch, out, raw, sanitize, scratch
from ._serving import flash_attn_varlen_func, flash_attn_with_kvcache

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
    "attention",
    "bench",
    "check",
    "evolve",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "out",
    "program",
    "raw",
    "register_with_transformers",
    "run",
    "sanitize",
    "scratch",
    "use_as_flash",
    "use_as_sdpa",
]


def __getattr__(name: str) -> Any:
    """Imports what needs other packages when it is first used."""
    if name in ("use_as_flash", "use_as_sdpa", "register_with_transformers"):
        from . import _torch

        return getattr(_torch, name)
    if name in ("triton", "numba"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
