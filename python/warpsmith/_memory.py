"""Memory of the host that a kernel's argument refers to.

An argument may be a numpy array, any object with ``__dlpack__`` on the CPU, or any object with ``data_ptr()``,
``dtype`` and ``shape``, such as a tensor of PyTorch. No library is imported for this.
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: Types of elements: the name that numpy, torch or Triton uses, and Warpsmith's name.
_DTYPES = {
    "float64": "f64", "double": "f64", "fp64": "f64",
    "float32": "f32", "float": "f32", "fp32": "f32",
    "float16": "f16", "half": "f16", "fp16": "f16",
    "bfloat16": "bf16", "bf16": "bf16",
    "float8_e4m3fn": "e4m3", "float8_e4m3": "e4m3", "fp8e4nv": "e4m3",
    "float8_e5m2": "e5m2", "fp8e5": "e5m2",
    "int8": "i8", "uint8": "u8", "bool": "u8",
    "int16": "i16", "uint16": "u16",
    "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64",
}  # fmt: skip

_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1, "i8": 1, "u8": 1}
_BYTES |= {"i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}


def item_bytes(dtype: str) -> int:
    """The size of an element of Warpsmith's type ``dtype``."""
    return _BYTES[dtype]


@dataclass
class Memory:
    """A range of the host's memory. ``pointer`` is what the kernel gets; it lies inside the range."""

    label: str
    address: int
    nbytes: int
    pointer: int
    dtype: str
    dims: tuple[int, ...]
    is_writable: bool
    is_contiguous: bool
    #: Keeps the memory alive.
    owner: Any

    def read(self) -> bytes:
        """The contents."""
        if self.nbytes == 0:
            return b""
        return bytes((ctypes.c_char * self.nbytes).from_address(self.address))

    def write(self, data: bytes) -> None:
        """Replaces the contents."""
        assert len(data) == self.nbytes
        ctypes.memmove(self.address, data, self.nbytes)


def is_array(value: Any) -> bool:
    """Whether a value refers to memory."""
    if isinstance(value, (bool, int, float, complex, str, bytes)) or _is_numpy_scalar(value):
        return False
    return any(hasattr(value, name) for name in ("__array_interface__", "__dlpack__", "data_ptr"))


def _is_numpy_scalar(value: Any) -> bool:
    # numpy's scalars have the interface of arrays, of a copy.
    return any(base.__name__ == "generic" and base.__module__ == "numpy" for base in type(value).__mro__)


def plain_number(value: Any) -> bool | int | float | None:
    """The Python number for a number of Python or numpy; ``None`` for other values."""
    if _is_numpy_scalar(value):
        value = value.item()
    return value if isinstance(value, (bool, int, float)) else None


def memory_of(value: Any, label: str) -> Memory:
    """The memory of an array. ``label`` names the argument in errors."""
    if hasattr(value, "__array_interface__"):
        return _from_numpy(value, label)
    device = str(getattr(value, "device", "cpu"))
    virtual = sys.modules.get(f"{__package__}._virtual_cuda")
    if virtual is not None and virtual.is_on_device(value):
        device = "cpu"
    if not device.startswith(("cpu", "Device(cpu", "kDLCPU")) and hasattr(value, "data_ptr"):
        raise ValueError(f"{label}: is on the device {device}; the virtual GPU needs memory of the CPU")
    if hasattr(value, "data_ptr"):
        return _from_pointer(value, label)
    return _from_dlpack(value, label)


def _from_numpy(value: Any, label: str) -> Memory:
    interface = value.__array_interface__
    kind = interface["typestr"]
    if kind[0] == ">":
        raise TypeError(f"{label}: the elements are big-endian ({kind}); convert them with astype")
    address, is_read_only = interface["data"]
    shape = tuple(interface["shape"])
    name = str(getattr(value, "dtype", ""))
    if kind[1] in "OMmSU":
        dtype_name(name or kind, label)
    item = int(kind[2:])
    if kind[1] == "V" and name not in _DTYPES:
        # Structures are passed as bytes.
        shape, dtype = (*shape, item), "u8"
        strides = interface.get("strides")
        strides = (*strides, 1) if strides else None
        return _described(label, address, shape, strides, 1, dtype, not is_read_only, value)
    dtype = dtype_name(name or kind, label)
    return _described(label, address, shape, interface.get("strides"), item, dtype, not is_read_only, value)


def dtype_name(name: str, label: str) -> str:
    """Warpsmith's name of a type of numpy, torch or Triton."""
    short = name.split(".")[-1]
    if short not in _DTYPES:
        raise TypeError(f"{label}: the type {name} is not a type of a kernel; expected one of {', '.join(_DTYPES)}")
    return _DTYPES[short]


def _from_pointer(value: Any, label: str) -> Memory:
    base = getattr(value, "base", None)
    if not hasattr(value, "shape") and hasattr(base, "data_ptr"):
        # A reinterpreted tensor of Triton.
        return memory_of(base, label)
    for name in ("dtype", "shape"):
        if not hasattr(value, name):
            raise TypeError(f"{label}: {type(value).__name__} has data_ptr but no {name}")
    dtype = dtype_name(str(value.dtype), label)
    item = value.element_size() if hasattr(value, "element_size") else item_bytes(dtype)
    shape = tuple(int(extent) for extent in value.shape)
    strides: Sequence[int] | None = None
    if callable(getattr(value, "stride", None)):
        strides = [int(stride) * item for stride in value.stride()]
    elif getattr(value, "strides", None) is not None:
        strides = [int(stride) for stride in value.strides]
    return _described(label, int(value.data_ptr()), shape, strides, item, dtype, True, value)


def _described(
    label: str,
    pointer: int,
    shape: tuple[int, ...],
    strides: Iterable[int] | None,
    item: int,
    dtype: str,
    is_writable: bool,
    owner: Any,
) -> Memory:
    steps = list(strides) if strides is not None else _packed(shape, item)
    if 0 in shape:
        return Memory(label, pointer, 0, pointer, dtype, shape, is_writable, True, owner)
    if pointer == 0:
        # Fake and meta tensors of PyTorch have a shape but no memory.
        raise ValueError(f"{label}: {type(owner).__name__} has no memory")
    ends = [(extent - 1) * step for extent, step in zip(shape, steps)]
    low = sum(end for end in ends if end < 0)
    high = sum(end for end in ends if end > 0) + item
    elements = item
    for extent in shape:
        elements *= extent
    # Every byte between the first and the last belongs to an element, in the order of C or of Fortran.
    is_contiguous = high - low == elements and low == 0 and _is_packed(shape, steps, item)
    return Memory(label, pointer + low, high - low, pointer, dtype, shape, is_writable, is_contiguous, owner)


def _packed(shape: Sequence[int], item: int) -> list[int]:
    steps, step = [], item
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return steps[::-1]


def _is_packed(shape: Sequence[int], steps: Sequence[int], item: int) -> bool:
    real = [(extent, step) for extent, step in zip(shape, steps) if extent > 1]
    extents, strides = [row[0] for row in real], [row[1] for row in real]
    return strides == _packed(extents, item) or strides == _packed(extents[::-1], item)[::-1]


# ---- DLPack ----


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


#: Codes of DLPack's types: integer, unsigned, float, bfloat, bool.
_DLPACK_TYPES = {
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64",
    (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (6, 8): "u8",
}  # fmt: skip

_CPU, _CUDA_HOST = 1, 3


def _from_dlpack(value: Any, label: str) -> Memory:
    if hasattr(value, "__dlpack_device__"):
        kind = int(value.__dlpack_device__()[0])
        if kind not in (_CPU, _CUDA_HOST):
            raise ValueError(f"{label}: is on a device (DLPack type {kind}); the virtual GPU needs memory of the CPU")
    try:
        capsule = value.__dlpack__()
    except Exception as error:
        raise ValueError(f"{label}: {type(value).__name__} does not give its memory: {error}") from error
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        tensor = _Tensor.from_address(get(capsule, b"dltensor"))
    except ValueError as error:
        raise TypeError(
            f"{label}: __dlpack__ of {type(value).__name__} returns something else than a tensor"
        ) from error
    dtype = _DLPACK_TYPES.get((tensor.dtype.code, tensor.dtype.bits)) if tensor.dtype.lanes == 1 else None
    if dtype is None:
        code, bits = tensor.dtype.code, tensor.dtype.bits
        raise TypeError(
            f"{label}: the type of the elements (DLPack code {code}, {bits} bits) is not a type of a kernel"
        )
    item = item_bytes(dtype)
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = [step * item for step in tensor.strides[: tensor.ndim]] if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule owns the memory: its destructor gives the memory back, because nobody took it over.
    return _described(label, address, shape, strides, item, dtype, True, (value, capsule))


# ---- Arguments for the native module ----

#: A kernel may assume this alignment of a pointer that has it on the host.
_ALIGNMENT = 16


def native(name: str, kind: str, **fields: Any) -> dict[str, Any]:
    """An argument for the native module."""
    return {"name": name, "kind": kind, "dtype": "", "dims": [], "data": b"", "text": "", "from": 0, "pointers": []} | fields


@dataclass
class Copy:
    """A buffer with a copy of the host's memory."""

    #: Index of the argument that has the buffer.
    index: int
    memory: Memory
    before: bytes
    #: Number of bytes of the buffer before the copy.
    padding: int = 0


@dataclass
class Buffers:
    """The buffers of a launch: which memory each has, and the arguments for the native module."""

    arguments: list[dict[str, Any]]
    copies: list[Copy]

    def write_back(self, contents: Sequence[bytes | None]) -> None:
        """Copies the results into the arrays. Raises ``ValueError`` if the kernel wrote to a read-only array."""
        refused = None
        for copy in self.copies:
            after = contents[copy.index]
            if after is None or after[copy.padding :] == copy.before:
                continue
            if copy.memory.is_writable:
                copy.memory.write(after[copy.padding :])
            else:
                refused = copy.memory.label
        if refused:
            raise ValueError(f"{refused}: the kernel wrote to this array, but it is read-only; it was not changed")


def place(arguments: Sequence[dict[str, Any] | Memory], outputs: frozenset[int] = frozenset()) -> Buffers:
    """Gives every memory a buffer. Arrays that overlap share one, as they do on the host.

    ``outputs``: indices of arrays that start uninitialised and must be written completely.
    """
    arguments, pointers = _with_targets(arguments)
    placed: list[dict[str, Any]] = [dict() if isinstance(it, Memory) else it for it in arguments]
    copies: list[Copy] = []
    for group in _overlapping([(i, it) for i, it in enumerate(arguments) if isinstance(it, Memory)]):
        if len(group) == 1 and group[0][1].pointer == group[0][1].address:
            index, memory = group[0]
            dims = list(memory.dims) if memory.is_contiguous else [memory.nbytes // item_bytes(memory.dtype)]
            name = plain_label(memory.label)
            if index in outputs:
                placed[index] = native(name, "out", dtype=memory.dtype, dims=dims)
                copies.append(Copy(index, memory, b""))
            else:
                data = memory.read()
                placed[index] = native(name, "inout", dtype=memory.dtype, dims=dims, data=data)
                copies.append(Copy(index, memory, data))
            continue
        start = min(memory.address for _, memory in group) // _ALIGNMENT * _ALIGNMENT
        first = min(memory.address for _, memory in group)
        end = max(memory.address + memory.nbytes for _, memory in group)
        label = ", ".join(memory.label for _, memory in group)
        is_writable = all(memory.is_writable for _, memory in group)
        owners = [memory.owner for _, memory in group]
        whole = Memory(label, first, end - first, first, "u8", (end - first,), is_writable, True, owners)
        data, padding = whole.read(), first - start
        name = " and ".join(plain_label(memory.label) for _, memory in group)
        placed.append(native(name, "inout", dtype="u8", dims=[end - start], data=bytes(padding) + data))
        copies.append(Copy(len(placed) - 1, whole, data, padding))
        for index, memory in group:
            placed[index] = native(plain_label(memory.label), "same", text=name, **{"from": memory.pointer - start})
    for address, value in pointers:
        (element, at), (target, to) = _buffer_at(copies, address), _buffer_at(copies, value)
        placed[element]["pointers"].append((at, target, to))
    return Buffers(placed, copies)


def _buffer_at(copies: Sequence[Copy], address: int) -> tuple[int, int]:
    """The argument whose buffer has a copy of the byte at ``address``, and the byte in it."""
    for copy in copies:
        if copy.memory.address <= address < copy.memory.address + copy.memory.nbytes:
            return copy.index, address - copy.memory.address + copy.padding
    raise ValueError(f"no argument has the address {address:#x}")


#: Larger arrays of integers hold no pointers.
_MOST_POINTERS = 4096


def _with_targets(
    arguments: Sequence[dict[str, Any] | Memory],
) -> tuple[list[dict[str, Any] | Memory], list[tuple[int, int]]]:
    """The arguments and the memory that integers in them point to, and those pointers: where each is, and its value.

    A kernel may load addresses of tensors from a tensor. Only tensors on PyTorch's virtual device are found.
    """
    rows = list(arguments)
    pointers: list[tuple[int, int]] = []
    virtual = sys.modules.get(f"{__package__}._virtual_cuda")
    tables = [it for it in rows if isinstance(it, Memory) and it.dtype in ("i64", "u64") and it.is_contiguous]
    if virtual is None or not virtual.is_active():
        return rows, pointers
    for table in tables:
        if not 8 <= table.nbytes <= 8 * _MOST_POINTERS:
            continue
        for index, (value,) in enumerate(struct.iter_unpack("<Q", table.read())):
            # The first page of memory is never mapped; most integers are smaller.
            found = virtual.memory_at(value) if value >= 4096 else None
            if found is None:
                continue
            address, nbytes, owner = found
            label = f"element {index} of {plain_label(table.label)}"
            if not any(isinstance(it, Memory) and it.address == address and it.nbytes == nbytes for it in rows):
                rows.append(Memory(label, address, nbytes, address, "u8", (nbytes,), True, True, owner))
            pointers.append((table.address + 8 * index, value))
    return rows, pointers


def plain_label(label: str) -> str:
    """The name of a parameter, without the word in front of it."""
    match = re.fullmatch(r"argument `(.*)`", label)
    return match[1] if match else label


def _overlapping(memories: list[tuple[int, Memory]]) -> list[list[tuple[int, Memory]]]:
    groups: list[list[tuple[int, Memory]]] = []
    end = 0
    for index, memory in sorted(memories, key=lambda row: row[1].address):
        overlaps = bool(groups) and memory.nbytes > 0 and memory.address < end
        if overlaps:
            groups[-1].append((index, memory))
        else:
            groups.append([(index, memory)])
        end = max(end, memory.address + memory.nbytes) if overlaps else memory.address + memory.nbytes
    return groups


# ---- Numbers and files ----

#: Formats of scalars by Triton's names of types.
_FORMATS = {
    "i1": "<B", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q",
    "u1": "<B", "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
    "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d",
}  # fmt: skip


def scalar_bytes(label: str, kind: str, value: Any) -> bytes:
    """A number as the bytes of a parameter. ``kind`` is Triton's name of the type."""
    number = plain_number(value)
    if number is None:
        raise TypeError(f"{label}: {value!r} is not a number")
    if kind not in _FORMATS and kind != "bf16":
        raise TypeError(f"{label}: the type {kind} is not supported")
    try:
        if kind == "bf16":
            bits = struct.unpack("<I", struct.pack("<f", number))[0]
            rounded = bits if number != number else bits + 0x7FFF + (bits >> 16 & 1)
            return struct.pack("<H", rounded >> 16 & 0xFFFF)
        return struct.pack(_FORMATS[kind], float(number) if "f" in kind else int(number))
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{label}: {number} does not fit {kind}") from error


#: The largest source file.
_MOST_BYTES = 16 << 20


def path_text(path: os.PathLike[str] | str) -> str:
    """The text of a source file."""
    with open(path, encoding="utf-8") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"source: {os.fspath(path)} is not a regular file")
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            raise ValueError(f"source: {os.fspath(path)} has more than {_MOST_BYTES >> 20} MiB")
        return file.read()
