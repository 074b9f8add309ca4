"""Paths and helpers of the tests."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest

#: The kernels of other projects' compilers, with their references.
CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "ptx"
sys.path.insert(0, str(CORPUS))

# PyTorch is too large for the environment of the tests. `crates/python/tests/package.rs` says how these tests run where it
# is installed; some of the first need a GPU.
WITH_TORCH = ["test_torch.py", "test_tutorials.py", "test_virtual_cuda.py"]
collect_ignore = [] if importlib.util.find_spec("torch") else WITH_TORCH

# Triton asks for a choice. Fused products are what its users have today.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


class Dtype(str):
    """A type of elements, as PyTorch has them."""

    @property
    def itemsize(self) -> int:
        return np.dtype(self.split(".")[-1]).itemsize


class Tensor:
    """The part of PyTorch's tensors that Triton and Warpsmith use, on memory of numpy."""

    device = "cpu"

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def dtype(self) -> Dtype:
        return Dtype(f"torch.{self.array.dtype}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self, dim: int | None = None) -> int | tuple[int, ...]:
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if dim is None else strides[dim]

    def element_size(self) -> int:
        return self.array.itemsize

    def data_ptr(self) -> int:
        return self.array.ctypes.data


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
