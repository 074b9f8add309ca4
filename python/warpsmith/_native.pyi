"""Types of the native module."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

__version__: str

class WarpsmithError(Exception): ...
class UsageError(WarpsmithError): ...
class CompileError(WarpsmithError): ...
class UnsupportedError(WarpsmithError): ...
class ToolchainError(WarpsmithError): ...

class Code:
    @property
    def kernel(self) -> str: ...
    @property
    def readable(self) -> str: ...
    @property
    def params(self) -> list[tuple[str, str, int, bool]]: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def ptx(self) -> str: ...

class KnownFindings:
    def __init__(self, file: str | PathLike[str]) -> None: ...
    def uses(self) -> list[tuple[int, str]]: ...

def load(
    text: str,
    file: str | PathLike[str],
    *,
    is_ptx: bool | None = None,
    kernel: str | None = None,
    device: str = "virtual",
    target: str | None = None,
    define: Sequence[str] = (),
    include: Sequence[str] = (),
    cuda: str | None = None,
) -> Code: ...
def launch(code: Code, arguments: Sequence[dict[str, Any]], options: dict[str, Any]) -> dict[str, Any]: ...
def device_properties(device: str) -> tuple[str, str, int, int]: ...

Described = tuple[tuple[int, ...], tuple[int, ...]]

class AttentionPlan:
    @property
    def kernel(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    def launch(
        self,
        stream: int,
        workspace: int,
        q: int,
        k: int,
        v: int,
        o: int,
        lse: int = 0,
        q_scale: int = 0,
        k_scale: int = 0,
        v_scale: int = 0,
    ) -> None: ...

ServedSizes = tuple[int | None, Sequence[int] | None, tuple[int | None, int | None] | None, float]

class ServedPlan:
    @property
    def kernel(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    def launch(self, stream: int, workspace: int, tensors: Sequence[int], addresses: Sequence[int]) -> None: ...

class AttentionDevice:
    def __init__(self, name: str, pack: str | PathLike[str] | None = None) -> None: ...
    def describe(self) -> str: ...
    def plan(
        self,
        dtype: str,
        q: Described,
        k: Described,
        v: Described,
        o: Described,
        mask: str,
        scale: float | None,
        output: str | None = None,
    ) -> AttentionPlan: ...
    def plan_served(
        self,
        dtype: str,
        q: Described,
        k: Described,
        v: Described,
        o: Described,
        mask: str,
        scale: float | None,
        sizes: ServedSizes,
        present: Sequence[int],
    ) -> ServedPlan: ...
    def compute_served(
        self,
        dtype: str,
        shapes: Sequence[Described],
        tensors: Sequence[bytes],
        mask: str,
        scale: float | None,
        sizes: ServedSizes,
        arrays: Sequence[bytes | None],
    ) -> tuple[bytes, bytes]: ...
    def compute(
        self,
        dtype: str,
        shapes: Sequence[tuple[int, ...]],
        tensors: Sequence[bytes],
        scales: Sequence[bytes | None],
        mask: str,
        scale: float | None,
        output: str | None = None,
    ) -> tuple[bytes, bytes]: ...

class AttentionExchange:
    def __init__(self, capsule: object) -> None: ...
    def add(self, index: int, device: AttentionDevice) -> None: ...
    def launch(
        self, q: Any, k: Any, v: Any, o: Any, lse: int, mask: str, scale: float | None, is_bshd: bool
    ) -> bool: ...
