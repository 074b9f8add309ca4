"""A case: PTX text, a launch, its arguments, and what the kernel must write."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

# The types of arguments, as `warpsmith sanitize --arg` names them.
TYPES = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}


@dataclass
class Argument:
    """One parameter of the kernel: a value, or a buffer that it reads, writes or updates."""

    role: str
    data: np.ndarray
    expected: np.ndarray | None = None
    rtol: float = 0.0
    atol: float = 0.0


def scalar(value, dtype):
    return Argument("value", np.array(value, dtype=dtype))


def null():
    return scalar(0, "uint64")


def read(data):
    return Argument("read", np.ascontiguousarray(data))


def write(expected, rtol=0.0, atol=0.0):
    """A buffer that the kernel must fill. `expected` comes from numpy."""
    expected = np.ascontiguousarray(expected)
    return Argument("write", np.zeros_like(expected), expected, rtol, atol)


def update(data, expected, rtol=0.0, atol=0.0):
    """A buffer that the kernel reads and changes."""
    return Argument("update", np.ascontiguousarray(data), np.ascontiguousarray(expected), rtol, atol)


def scratch(count):
    """Memory that the kernel may use and whose contents do not matter."""
    return Argument("scratch", np.zeros(count, dtype="uint8"))


@dataclass
class Case:
    name: str
    compiler: str
    ptx: str
    kernel: str
    grid: tuple
    block: tuple
    shared: int
    arguments: list = field(default_factory=list)

    def save(self, folder: Path):
        (folder / f"{self.name}.ptx").write_text(self.ptx)
        rows = []
        for number, argument in enumerate(self.arguments):
            row = {"role": argument.role, "type": TYPES[argument.data.dtype.name]}
            if argument.role == "value":
                row["value"] = argument.data.item()
            else:
                row["count"] = argument.data.size
            if argument.role in ("read", "update"):
                row["file"] = f"{self.name}.{number}.npy"
                np.save(folder / row["file"], argument.data.reshape(-1))
            if argument.expected is not None:
                row["expected"] = f"{self.name}.{number}.expected.npy"
                row["rtol"], row["atol"] = argument.rtol, argument.atol
                np.save(folder / row["expected"], argument.expected.reshape(-1))
            rows.append(row)
        launch = {
            "name": self.name,
            "compiler": self.compiler,
            "ptx": f"{self.name}.ptx",
            "kernel": self.kernel,
            "grid": (list(self.grid) + [1, 1])[:3],
            "block": (list(self.block) + [1, 1])[:3],
            "shared": self.shared,
            "arguments": rows,
        }
        (folder / f"{self.name}.json").write_text(json.dumps(launch, indent=1) + "\n")
