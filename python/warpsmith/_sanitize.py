"""``warpsmith.sanitize``: runs a kernel on the virtual GPU under its checkers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _native
from ._memory import Buffers, Memory, is_array, memory_of, native, path_text, place, plain_number, scalar_bytes
from ._native import UsageError
from ._report import Report, report_from
from ._signature import Parameter, fits, parameters

#: One to three sizes: ``4``, ``(4, 2)`` or ``(4, 2, 1)``.
Extent = int | Sequence[int]

#: The names of types in numpy.
_ARRAYS = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
_ARRAYS |= {f"{k}{b}": f"{n}{b}" for k, n in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)}

#: Types that PTX declares as bytes, and Triton's names of them.
_HALVES = {"f16": "fp16", "bf16": "bf16"}

#: The default budget of warp instructions: about half a minute.
BUDGET = 300_000_000


@dataclass(frozen=True)
class Output:
    """An array that starts uninitialised for the kernel, and of which the kernel must write every element."""

    array: Any


@dataclass(frozen=True)
class Scratch:
    """Memory that the kernel may use. It starts uninitialised."""

    nbytes: int


@dataclass(frozen=True)
class Raw:
    """A parameter by value, as raw bytes: a structure or a tensor map."""

    data: bytes


def out(array: Any) -> Output:
    """Marks an argument as an output: its contents start uninitialised, and every element must be written."""
    return Output(array)


def scratch(nbytes: int) -> Scratch:
    """Workspace of ``nbytes`` bytes for the kernel."""
    if isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0:
        raise ValueError(f"nbytes: {nbytes!r} is not a number of bytes")
    return Scratch(nbytes)


def raw(data: bytes) -> Raw:
    """A parameter that is passed by value, as its bytes."""
    return Raw(bytes(data))


def sanitize(
    source: str | os.PathLike[str],
    kernel: str | None = None,
    grid: Extent = 1,
    block: Extent = 1,
    args: Sequence[Any] | Mapping[str, Any] = (),
    *,
    shared: int = 0,
    cluster: Extent = 1,
    device: str = "virtual",
    target: str | None = None,
    define: Sequence[str] | Mapping[str, Any] = (),
    include: Sequence[str | os.PathLike[str]] = (),
    seed: int = 0,
    expect: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    checked: bool = True,
    counters: bool = False,
    budget: int = BUDGET,
    time_limit: float | None = None,
    threads: int = 0,
    suppressions: str | os.PathLike[str] | None = None,
) -> Report:
    """Runs a CUDA or PTX kernel on the virtual GPU and returns what its checkers found. No GPU is needed.

    ``source`` is CUDA C++ or PTX, as text or as the path of a file. ``kernel`` names the kernel, with its template
    arguments if it has some; without it, the file must have exactly one.

    ``args`` are the arguments in order, or a dictionary by the names of the parameters. An array (numpy, ``__dlpack__``
    on the CPU, or ``data_ptr``) is a pointer; it has the kernel's results after the launch. Arrays that share memory
    share it on the virtual GPU. A number gets the type of the parameter. ``None`` is a null pointer. :func:`out`,
    :func:`scratch` and :func:`raw` describe other arguments.

    ``grid``, ``block`` and ``cluster`` are numbers or tuples of up to three; ``shared`` is the dynamic shared memory
    in bytes. ``device`` is the virtual GPU (``virtual:h200``), ``target`` the architecture to compile for
    (``sm_90``). ``seed`` other than 0 changes addresses, the order of blocks and clocks. ``expect`` maps arguments to
    arrays that they must equal afterwards, within ``rtol`` and ``atol`` (by default those of
    ``torch.testing.assert_close``). ``budget`` and ``time_limit`` (seconds) end a kernel that does not end itself.
    ``counters`` adds the modelled time. ``suppressions`` is a file of known findings, as ``warpsmith sanitize
    --suppressions`` takes it; :attr:`Report.suppressions` says what its rules did.

    Raises :class:`CompileError` if the source does not compile, :class:`UsageError`, ``TypeError`` or ``ValueError``
    for a wrong argument, and :class:`UnsupportedError` for code that the virtual GPU cannot run. Findings do not
    raise; call :meth:`Report.raise_for_errors`. Ctrl-C ends a launch. Several threads may call at once.
    """
    for name, value in (("kernel", kernel), ("device", device), ("target", target)):
        if not isinstance(value, str) and (value is not None or name == "device"):
            raise TypeError(f"{name}: expected text, not {type(value).__name__}")
    text, file, is_text = _source(source)
    if "\0" in text:
        raise ValueError("source: contains a NUL byte")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"source: is not valid Unicode: {error.reason}") from error
    geometry = {"grid": _extent(grid, "grid"), "block": _extent(block, "block"), "cluster": _extent(cluster, "cluster")}
    options: dict[str, Any] = {
        **geometry,
        "shared": _count(shared, "shared", 2**31 - 1),
        **launch_options(seed, checked, counters, budget, time_limit, threads),
        "rtol": _tolerance(rtol, "rtol"),
        "atol": _tolerance(atol, "atol"),
    }
    known = known_findings(suppressions)
    options["suppressions"] = known
    code = _native.load(
        text,
        file,
        is_ptx=None if not is_text else _is_ptx(text),
        kernel=kernel,
        device=device,
        target=target,
        define=_defines(define),
        include=[os.fspath(folder) for folder in include],
        cuda=os.environ.get("WARPSMITH_CUDA") or None,
    )
    declared = None if _is_ptx(text) else parameters(text, code.readable, len(code.params))
    buffers = _arguments(code, declared, args)
    options["expect"] = _expected(expect, buffers)
    result = _native.launch(code, buffers.arguments, options)
    told = [line for _, line in known.uses()] if known else []
    report = report_from(result, code.notes, suppressions=told)
    buffers.write_back(result["buffers"])
    return report


# ---- The source and the options ----


def _source(source: str | os.PathLike[str]) -> tuple[str, str, bool]:
    """The text, the file's name in messages, and whether the text was given."""
    if isinstance(source, os.PathLike):
        return path_text(source), os.fspath(source), False
    if not isinstance(source, str):
        raise TypeError(f"source: expected text or a path, not {type(source).__name__}")
    is_path = not re.search(r"[\n{;]", source) and "__global__" not in source
    if is_path and (os.path.exists(source) or source.endswith((".cu", ".cuh", ".ptx", ".h", ".cpp"))):
        return path_text(source), source, False
    if not source.strip():
        raise ValueError("source: the text is empty")
    return source, "kernel.ptx" if _is_ptx(source) else "kernel.cu", True


def _is_ptx(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and not line.startswith("//")), "").startswith(".version")


def _extent(value: Extent, name: str) -> list[int]:
    if isinstance(value, str) or plain_number(value) is None and not hasattr(value, "__iter__"):
        raise TypeError(f"{name}: expected one to three sizes, not {value!r}")
    extents: list[Any] = [value] if plain_number(value) is not None else list(value)  # type: ignore[arg-type]
    if not 1 <= len(extents) <= 3:
        raise ValueError(f"{name}: expected one to three sizes, not {len(extents)}")
    for extent in extents:
        number = plain_number(extent)
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{name}: {extent!r} is not a whole number")
        if not 1 <= number < 2**32:
            raise ValueError(f"{name}: {number} is not a size; every size must be at least 1")
    return [int(extent) for extent in extents] + [1] * (3 - len(extents))


def launch_options(
    seed: int, checked: bool, counters: bool, budget: int, time_limit: float | None, threads: int
) -> dict[str, Any]:
    """The options of a launch whose results are not compared, for the native module."""
    return {
        "seed": _count(seed, "seed", 2**64 - 1),
        "checked": bool(checked),
        "counters": bool(counters),
        "budget": _count(budget, "budget", 2**63 - 1),
        "time_limit": _seconds(time_limit),
        "threads": _count(threads, "threads", 1024),
        "expect": [],
        "rtol": None,
        "atol": None,
        "suppressions": None,
    }


def known_findings(suppressions: Any) -> _native.KnownFindings | None:
    """The rules of a file of known findings, or rules that several blocks share."""
    if suppressions is None or isinstance(suppressions, _native.KnownFindings):
        return suppressions
    if not isinstance(suppressions, (str, os.PathLike)):
        raise TypeError(f"suppressions: expected the path of a file, not {type(suppressions).__name__}")
    return _native.KnownFindings(suppressions)


def _count(value: Any, name: str, most: int) -> int:
    number = plain_number(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name}: {value!r} is not a whole number")
    if not 0 <= number <= most:
        raise ValueError(f"{name}: {number} is not in the range 0 to {most}")
    return number


def _seconds(value: float | None) -> float | None:
    if value is None:
        return None
    number = plain_number(value)
    if number is None or not 0 < number < 1e9:
        raise ValueError(f"time_limit: {value!r} is not a number of seconds above 0")
    return float(number)


def _tolerance(value: float | None, name: str) -> float | None:
    if value is None:
        return None
    number = plain_number(value)
    if number is None or not 0 <= number < float("inf"):
        raise ValueError(f"{name}: {value!r} is not a tolerance")
    return float(number)


def _defines(define: Sequence[str] | Mapping[str, Any]) -> list[str]:
    if isinstance(define, str):
        raise TypeError("define: expected a list or a dictionary of macros, not one text")
    if isinstance(define, Mapping):
        return [f"{name}={int(value) if isinstance(value, bool) else value}" for name, value in define.items()]
    return [str(macro) for macro in define]


# ---- Arguments ----


def _arguments(
    code: _native.Code, declared: list[Parameter] | None, args: Sequence[Any] | Mapping[str, Any]
) -> Buffers:
    names = [parameter.name for parameter in declared] if declared else [name for name, *_ in code.params]
    if isinstance(args, Mapping):
        values = _by_name(args, names, code.readable)
    elif isinstance(args, (str, bytes)) or is_array(args):
        raise TypeError("args: expected a list or a dictionary of arguments")
    else:
        values = list(args)
    if len(values) != len(code.params):
        kinds = ", ".join(f"{name}: {kind}" for name, (_, kind, *_) in zip(names, code.params))
        raise UsageError(
            f"args: `{code.readable}` has {len(code.params)} parameters, but {len(values)} arguments are given"
            + (f"\nhint: the parameters are {kinds}" if kinds else "")
        )
    rows: list[dict[str, Any] | Memory] = []
    outputs = set()
    for index, (name, value, param) in enumerate(zip(names, values, code.params)):
        label = f"argument `{name}`" if declared or isinstance(args, Mapping) else f"argument {index} (`{name}`)"
        if isinstance(value, Output):
            outputs.add(index)
            value = value.array
            if not is_array(value):
                raise TypeError(f"{label}: out() needs an array, not {type(value).__name__}")
        rows.append(_argument(label, name, value, param, declared[index] if declared else None))
        memory = rows[-1]
        if index in outputs and isinstance(memory, Memory) and not memory.is_writable:
            raise ValueError(f"{label}: the array is read-only, so it cannot be an output")
    return place(rows, frozenset(outputs))


def _by_name(args: Mapping[str, Any], names: list[str], kernel: str) -> list[Any]:
    for name in args:
        if name not in names:
            raise UsageError(
                f"argument `{name}`: `{kernel}` has no such parameter\nhint: parameters: {', '.join(names)}"
            )
    missing = [name for name in names if name not in args]
    if missing:
        raise UsageError(f"argument `{missing[0]}`: is missing")
    return [args[name] for name in names]


def _argument(
    label: str, name: str, value: Any, param: tuple[str, str, int, bool], declared: Parameter | None
) -> dict[str, Any] | Memory:
    _, kind, size, is_pointer = param
    is_pointer = is_pointer or bool(declared and "*" in declared.text)
    shown = declared.text if declared else kind
    if isinstance(value, Raw):
        if len(value.data) != size:
            raise ValueError(f"{label}: has {len(value.data)} bytes, but the kernel's parameter has {size}")
        return native(name, "bytes", data=value.data)
    if isinstance(value, Scratch) or value is None or is_array(value):
        if size != 8 or declared is not None and declared.value is not None:
            what = "a null pointer" if value is None else "an array"
            raise TypeError(f"{label}: is {what}, but the kernel's parameter is {shown}")
        if value is None:
            return native(name, "null")
        if isinstance(value, Scratch):
            return native(name, "scratch", dtype="u8", dims=[value.nbytes])
        memory = memory_of(value, label)
        if not memory.is_contiguous:
            raise ValueError(f"{label}: the array is not contiguous; pass numpy.ascontiguousarray(...) or a copy")
        if declared and declared.element and not fits(declared.element, memory.dtype):
            raise TypeError(
                f"{label}: the kernel takes {declared.text}, but the array has {_ARRAYS.get(memory.dtype, 'fp8')}"
            )
        return memory
    number = plain_number(value)
    if number is None:
        raise TypeError(f"{label}: {type(value).__name__} is neither an array nor a number")
    if is_pointer:
        raise TypeError(f"{label}: is the number {number}, but the kernel's parameter is a pointer ({shown})")
    if isinstance(number, bool):
        number = int(number)
    if isinstance(number, int) and number.bit_length() > 64:
        raise ValueError(f"{label}: {number} does not fit {shown}")
    if declared and declared.value in _HALVES:
        return native(name, "bytes", data=scalar_bytes(label, _HALVES[declared.value], number))
    # The notation of arguments uses a final f as in C.
    text = repr(number).replace("inf", "infinity")
    reason = _wrong_number(number, kind, size)
    if reason:
        raise TypeError(f"{label}: {text} {reason}, but the kernel's parameter is {shown}")
    return native(name, "number", text=text)


def _wrong_number(number: int | float, kind: str, size: int) -> str | None:
    is_float = kind.startswith(("f", "bf"))
    if "[" in kind:
        return "is a number (pass a structure with raw(...))"
    if not is_float and isinstance(number, float):
        return "is not a whole number"
    if not is_float and isinstance(number, int) and not -(2 ** (8 * size - 1)) <= number < 2 ** (8 * size):
        return "does not fit"
    return None


def _expected(expect: Mapping[str, Any] | None, buffers: Buffers) -> list[tuple[str, str, list[int], bytes]]:
    names = [row["name"] for row in buffers.arguments if row["kind"] in ("inout", "out")]
    rows = []
    for name, value in (expect or {}).items():
        label = f"expect[{name!r}]"
        if name not in names:
            raise UsageError(f"{label}: there is no such array\nhint: arrays: {', '.join(names)}")
        if not is_array(value):
            raise TypeError(f"{label}: expected an array, not {type(value).__name__}")
        memory = memory_of(value, label)
        if not memory.is_contiguous:
            raise ValueError(f"{label}: the array is not contiguous")
        rows.append((name, memory.dtype, list(memory.dims), memory.read()))
    return rows
