"""The parameters of a kernel as its CUDA C++ source declares them.

PTX has neither the names of parameters nor the types behind pointers. Where the source can be read, mistakes such as
float64 elements for a ``float*`` are found before the launch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Element types by their name in C++.
_TYPES = {
    "float": "f32", "double": "f64", "half": "f16", "__half": "f16",
    "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2",
    "int": "i32", "unsigned": "u32", "unsigned int": "u32", "int32_t": "i32", "uint32_t": "u32",
    "long long": "i64", "long": "i64", "int64_t": "i64",
    "unsigned long long": "u64", "unsigned long": "u64", "uint64_t": "u64", "size_t": "u64",
    "short": "i16", "int16_t": "i16", "unsigned short": "u16", "uint16_t": "u16",
    "char": "i8", "signed char": "i8", "int8_t": "i8", "unsigned char": "u8", "uint8_t": "u8", "bool": "u8",
}  # fmt: skip

_FLOATS = {"f64", "f32", "f16", "bf16", "e4m3", "e5m2"}


@dataclass(frozen=True)
class Parameter:
    """A parameter: its name and its type in C++."""

    name: str
    text: str
    #: The type of the elements, if it is a pointer to a known type.
    element: str | None
    #: The type of the value, if it is a number of a known type.
    value: str | None


def parameters(source: str, kernel: str, count: int) -> list[Parameter] | None:
    """The parameters of the kernel called ``kernel``; ``None`` if the source does not tell."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.S)
    base = re.split(r"[<(]", kernel)[0].split("::")[-1].strip()
    for found in re.finditer(r"__global__\b", text):
        name = re.compile(rf"[^;{{}}]*?\b{re.escape(base)}\s*\(").match(text, found.end())
        if not name:
            continue
        inside = _balanced(text, name.end() - 1)
        rows = [_parameter(part) for part in _split(inside)] if inside is not None else []
        if inside is not None and len(rows) == count and all(rows):
            return [row for row in rows if row]
    return None


def _balanced(text: str, start: int) -> str | None:
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1 : at]
    return None


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def _parameter(text: str) -> Parameter | None:
    text = text.split("=")[0]
    is_array = bool(re.search(r"\[[^\]]*\]\s*$", text))
    text = re.sub(r"\[[^\]]*\]\s*$", "", text)
    match = re.fullmatch(r"(.*?)\b([A-Za-z_]\w*)\s*", text, flags=re.S)
    if not match or not match[1].strip():
        return None
    kind = re.sub(r"\b(const|volatile|__restrict__|__restrict|__grid_constant__|restrict|struct)\b", " ", match[1])
    pointers = kind.count("*") + is_array
    element = " ".join(kind.replace("*", " ").split()).removeprefix("std::")
    shown = element + "*" * pointers
    known = _TYPES.get(element)
    return Parameter(match[2], shown, known if pointers == 1 else None, known if pointers == 0 else None)


def fits(element: str, dtype: str) -> bool:
    """Whether an array of the type ``dtype`` may be passed as a pointer to ``element``."""
    width = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1}
    size = lambda name: width.get(name) or int(name[1:]) // 8  # noqa: E731
    if element == dtype:
        return True
    if size(element) != size(dtype):
        return False
    # Integers may have either sign. Types that numpy lacks are stored as integers of their width.
    return dtype not in _FLOATS and (element not in _FLOATS or size(element) < 4)
