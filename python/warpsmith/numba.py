"""Numba's ``@cuda.jit`` kernels on the virtual GPU, without a GPU and without a change of the kernel.

::

    import warpsmith.numba

    with warpsmith.numba.virtual():
        saxpy[4, 128](2.5, x, y)

The arrays are numpy arrays, or other arrays on the CPU; they have the results after the launch. Findings point to the
lines of the Python file. Inside the block a launch compiles the kernel to PTX with numba-cuda and does not use CUDA's
driver. What numba-cuda itself does with a GPU, such as ``cuda.to_device``, streams, ``cuda.jit`` with a signature, or
``cuda.reduce``, does not work without one.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from . import _native
from ._memory import Memory, is_array, memory_of, native, place
from ._report import Report, report_from
from ._sanitize import BUDGET, Extent, _count, _extent, launch_options
from ._session import Session, usual_device

#: How to install what numba-cuda needs also without a GPU: NVVM (``nvidia-nvvm``), NVRTC and the CUDA runtime.
_INSTALL = "pip install 'numba-cuda[cu13]'"


def _missing_library(error: Exception) -> str | None:
    """The missing CUDA library that an exception of numba-cuda is about."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if not kinds & {"DynamicLibNotFoundError", "NvvmSupportError"}:
        return None
    found = re.search(r"\blib[\w-]+\.so", str(error))
    return found[0] if found else "libnvvm.so"


try:
    import numba as _numba
    from numba import cuda as _cuda
    from numba.cuda import dispatcher as _dispatcher
    from numba.cuda.dispatcher import CUDADispatcher as _CUDADispatcher
except ImportError as error:  # pragma: no cover
    raise ImportError(f"warpsmith.numba needs the package `numba-cuda`: {_INSTALL}") from error
except RuntimeError as error:  # pragma: no cover
    # numba-cuda looks for CUDA's runtime when it is imported.
    if (library := _missing_library(error)) is None:
        raise
    raise ImportError(f"numba-cuda finds no {library}, which it needs also without a GPU: {_INSTALL}") from error

#: The block of ``forall``, which chooses one itself.
_FORALL_BLOCK = 128


@contextmanager
def virtual(
    target: str = "sm_80",
    *,
    device: str | None = None,
    raise_on_error: bool = True,
    seed: int = 0,
    checked: bool = True,
    counters: bool = False,
    budget: int = BUDGET,
    time_limit: float | None = None,
    threads: int = 0,
    suppressions: Any = None,
) -> Iterator[Session]:
    """Runs all Numba kernels that are launched inside the block on the virtual GPU.

    A launch with an error raises :class:`warpsmith.SanitizeError`; with ``raise_on_error=False`` the reports are only
    collected in ``session.reports``. The options are those of :func:`warpsmith.sanitize`. While the block is active,
    the launches of all threads go to the virtual GPU. A rule of ``suppressions`` that matches no finding in the block
    is a warning at its end; ``session.suppressions`` says what every rule did.
    """
    device = device or usual_device(target)
    _native.device_properties(device)
    options = launch_options(seed, checked, counters, budget, time_limit, threads)
    session = Session(target, device, options, raise_on_error, suppressions)
    with _LOCK:
        _sessions.append(session)
        _CUDADispatcher.configure = _configure
        _CUDADispatcher.forall = _forall
    try:
        with session.telling():
            yield session
    finally:
        with _LOCK:
            _sessions.remove(session)
            if not _sessions:
                _CUDADispatcher.configure, _CUDADispatcher.forall = _before


def sanitize(
    function: Callable[..., Any],
    signature: Any = None,
    grid: Extent = 1,
    block: Extent = 1,
    args: Sequence[Any] = (),
    *,
    target: str = "sm_80",
    shared: int = 0,
    **options: Any,
) -> Report:
    """Runs one kernel, a Python function or the result of ``@cuda.jit``, and returns the report. Findings do not raise.

    ``signature`` is a tuple of Numba's types; without it, the types of ``args`` are used.
    """
    with virtual(target, raise_on_error=False, **options) as session:
        _launch(session, function, signature, (_extent(grid, "grid"), _extent(block, "block")), shared, args)
    return session.reports[-1]


# ---- Launches ----

_LOCK = threading.RLock()
_sessions: list[Session] = []
_before = (_CUDADispatcher.configure, _CUDADispatcher.forall)


def _configure(self: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Any:
    extents = _extent(griddim, "grid"), _extent(blockdim, "block")
    session = _sessions[-1]
    return lambda *args: _launch(session, self, None, extents, sharedmem, args)


def _forall(self: Any, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Any:
    block = tpb or _FORALL_BLOCK
    if ntasks == 0:
        return lambda *args: None
    return _configure(self, -(-ntasks // block), block, stream, sharedmem)


def _launch(
    session: Session,
    function: Any,
    signature: Any,
    extents: tuple[list[int], list[int]],
    shared: int,
    args: Sequence[Any],
) -> None:
    plain = getattr(function, "py_func", function)
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    if len(args) != len(names):
        raise TypeError(f"args: `{plain.__name__}` has {len(names)} parameters, but {len(args)} arguments are given")
    values = [_plain(f"argument `{name}`", value) for name, value in zip(names, args)]
    kinds = tuple(signature) if signature is not None else tuple(_numba.typeof(value) for value in values)
    code = _compiled(session, function, plain, kinds)
    rows: list[dict[str, Any] | Memory] = []
    for name, kind, value in zip(names, kinds, values):
        _append(rows, f"argument `{name}`", kind, value)
    buffers = place(rows)
    options = {
        "grid": extents[0],
        "block": extents[1],
        "cluster": [1, 1, 1],
        "shared": _count(shared, "sharedmem", 2**31 - 1),
        **session.options,
    }
    result = _native.launch(code, buffers.arguments, options)
    own = os.path.dirname(_numba.__file__) + os.sep
    session.finish(report_from(result, [], lambda file: not file.startswith(own)), buffers, result["buffers"])


def _plain(label: str, value: Any) -> Any:
    """A value that Numba can type: arrays of other libraries become numpy arrays of the same memory."""
    if not is_array(value) or hasattr(value, "__array_interface__"):
        return value
    import numpy

    memory = memory_of(value, label)
    names = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "e4m3": "u1", "e5m2": "u1"}
    name = names.get(memory.dtype) or f"{memory.dtype[0]}{int(memory.dtype[1:]) // 8}"
    if not memory.is_contiguous:
        raise ValueError(f"{label}: the array is not contiguous")
    raw = (ctypes.c_char * memory.nbytes).from_address(memory.address) if memory.nbytes else b""
    return numpy.frombuffer(raw, dtype=name).reshape(memory.dims)


def _compiled(session: Session, function: Any, plain: Any, kinds: tuple[Any, ...]) -> Any:
    # A kernel keeps its code; a plain function has no place for it.
    cache = function.__dict__.setdefault("_warpsmith", {}) if hasattr(function, "py_func") else {}
    key = (kinds, session.target, session.device)
    if key not in cache:
        number = int(session.target.removeprefix("sm_"))
        wanted = getattr(function, "targetoptions", {})
        kept = {name: wanted[name] for name in ("fastmath", "opt", "launch_bounds") if wanted.get(name) is not None}
        with _capability(divmod(number, 10)) as cc:
            try:
                ptx, _ = _cuda.compile_ptx(plain, kinds, cc=cc, lineinfo=True, **kept)
            except Exception as error:
                if (library := _missing_library(error)) is None:
                    raise
                raise _native.UnsupportedError(
                    f"numba-cuda finds no {library}, which it needs to compile, also without a GPU: {_INSTALL}"
                ) from error
        kernel = re.search(r"\.visible \.entry ([\w$]+)", ptx)
        if kernel is None:
            raise _native.UnsupportedError(f"numba-cuda made no kernel of `{plain.__name__}`")
        file = os.path.abspath(plain.__code__.co_filename)
        cache[key] = _native.load(
            ptx,
            f"{plain.__name__}.ptx",
            is_ptx=True,
            kernel=kernel[1],
            device=session.device,
            include=[os.path.dirname(file)] if os.path.exists(file) else [],
        )
    return cache[key]


@contextmanager
def _capability(cc: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Answers the question of device functions which GPU they are compiled for."""
    with _LOCK:
        before = _dispatcher.get_current_device
        _dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=cc)
        try:
            yield cc
        finally:
            _dispatcher.get_current_device = before


def _append(rows: list[dict[str, Any] | Memory], label: str, kind: Any, value: Any) -> None:
    """Appends the parameters of an argument, in the order of Numba's calling convention."""
    types = _numba.types

    def number(form: str, it: Any) -> None:
        try:
            rows.append(native(label, "bytes", data=struct.pack("<" + form, it)))
        except (struct.error, TypeError) as error:
            raise TypeError(f"{label}: {value!r} is not {kind}") from error

    if isinstance(kind, types.Array):
        if not is_array(value):
            raise TypeError(f"{label}: {type(value).__name__} is not an array")
        array = value.__array_interface__
        memory = memory_of(value, label)
        item = value.dtype.itemsize
        rows.extend([native(label, "null"), native(label, "null")])
        number("q", value.size)
        number("q", item)
        rows.append(memory)
        for extent in array["shape"]:
            number("q", extent)
        for stride in value.strides:
            number("q", stride)
    elif isinstance(kind, types.Boolean):
        number("B", bool(value))
    elif isinstance(kind, types.Integer):
        letter = {8: "b", 16: "h", 32: "i", 64: "q"}[kind.bitwidth]
        number(letter if kind.signed else letter.upper(), int(value))
    elif isinstance(kind, types.Float):
        number({16: "e", 32: "f", 64: "d"}[kind.bitwidth], float(value))
    elif isinstance(kind, types.Complex):
        part = "f" if kind.bitwidth == 64 else "d"
        number(part, value.real)
        number(part, value.imag)
    elif isinstance(kind, types.BaseTuple):
        for index, (inner, it) in enumerate(zip(kind, value)):
            _append(rows, f"{label}[{index}]", inner, it)
    else:
        raise TypeError(f"{label}: Numba's type {kind} is not supported")
