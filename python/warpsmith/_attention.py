"""Attention: ``softmax(scale * Q K^T) V``.

On CUDA tensors of PyTorch the kernels run on the GPU. On arrays and tensors of the CPU they run on the virtual GPU,
which checks them and is slow. PyTorch is imported only if the arguments are its tensors.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from . import _native

#: The GPU whose kernels run on the virtual GPU.
_VIRTUAL = "virtual:h200"

_devices: dict[str, _native.AttentionDevice] = {}
_lock = threading.Lock()


def attention(
    q: Any,
    k: Any,
    v: Any,
    causal: bool | str = False,
    scale: float | None = None,
    return_lse: bool = False,
    *,
    layout: str = "bhsd",
    q_scale: Any = None,
    k_scale: Any = None,
    v_scale: Any = None,
    out_dtype: Any = None,
) -> Any:
    """Computes attention.

    ``q``: ``[batch, heads, queries, head_dim]``; ``k`` and ``v``: ``[batch, kv_heads, keys, head_dim]``. With
    ``layout="bshd"`` the second and the third axis are swapped, also in the result. Elements are fp16, bf16, or FP8
    (E4M3); ``heads`` is a multiple of ``kv_heads``. CUDA tensors may have any strides; a tensor whose rows are not
    contiguous or not aligned to 16 bytes is copied first.

    ``causal=True`` hides the keys after a query; the last query sees all keys, as in FlashAttention.
    ``causal="top-left"`` aligns the first query with the first key instead, as PyTorch's ``is_causal`` does. They
    differ only if there are more keys than queries or fewer.

    ``scale`` is the factor of the scores, ``1 / sqrt(head_dim)`` by default. ``q_scale``, ``k_scale``, ``v_scale``:
    factors of FP8 tensors, fp32, one for each batch entry and head.

    Returns the output, in the type of ``q``, or with ``return_lse=True`` the output and the natural logarithm of the
    sum of the exponentials of each row's scores, fp32 ``[batch, heads, queries]``. For FP8 the output is fp16, or bf16
    with ``out_dtype=torch.bfloat16`` (or ``"bfloat16"``): it has the range of fp32, while fp16 ends at 65504.

    Runs on the current stream of PyTorch; CUDA graphs and ``torch.compile`` can contain it. Call it once before a
    graph is captured, because the first call loads the kernel. Gradients are computed by PyTorch.
    """
    mask = _MASKS.get(causal) if causal is False or causal is True or isinstance(causal, str) else None
    if mask is None:
        raise ValueError(f'causal: {causal!r} is not False, True, "bottom-right" or "top-left"')
    of_torch = _of_torch or _find_torch()
    if of_torch is not None and isinstance(q, of_torch[0]):
        if q_scale is None and k_scale is None and v_scale is None and out_dtype is None:
            return of_torch[1](q, k, v, mask, scale, return_lse, layout)
        return of_torch[1](q, k, v, mask, scale, return_lse, layout, (q_scale, k_scale, v_scale), out_dtype)
    return _on_host(q, k, v, mask, scale, return_lse, layout, (q_scale, k_scale, v_scale), out_dtype)


_MASKS = {False: "none", True: "causal", "bottom-right": "causal", "top-left": "causal-tl"}

#: PyTorch's type of tensors, and the function for them. Set when PyTorch is found.
_of_torch: tuple[type, Any] | None = None


def _find_torch() -> tuple[type, Any] | None:
    """Looks for PyTorch among the imported modules: only then can an argument be its tensor."""
    global _of_torch
    if "torch" in sys.modules:
        from . import _torch

        _of_torch = (_torch.torch.Tensor, _torch.attention)
    return _of_torch


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """``flash_attn.flash_attn_func`` for tensors ``[batch, seq, heads, head_dim]``.

    With ``return_attn_probs=True`` it returns also the log-sum-exp, fp32 ``[batch, heads, queries]``, and None for the
    probabilities, which only dropout has. The result is deterministic. Dropout and ALiBi are refused, gradients with a window,
    a soft cap or ``return_attn_probs``, too.
    """
    unsupported = {"dropout_p": dropout_p != 0.0, "alibi_slopes": alibi_slopes is not None}
    for name, is_set in unsupported.items():
        if is_set:
            raise _native.UnsupportedError(f"{name}: not supported")
    if window_size == (-1, -1) and softcap == 0.0 and not return_attn_probs:
        return attention(q, k, v, causal, softmax_scale, layout="bshd")
    from ._serving import windowed

    output, lse = windowed(q, k, v, causal, softmax_scale, window_size, softcap)
    return (output, lse, None) if return_attn_probs else output


def device(name: str) -> _native.AttentionDevice:
    """The device ``cuda:N`` or ``virtual:NAME``, opened once."""
    opened = _devices.get(name)
    if opened is None:
        with _lock:
            opened = _devices.get(name)
            if opened is None:
                # Compiled kernels that a wheel contains.
                pack = os.path.join(os.path.dirname(__file__), "kernels.pack")
                opened = _native.AttentionDevice(name, pack if os.path.exists(pack) else None)
                _devices[name] = opened
    return opened


#: Types of outputs by the names that PyTorch and NumPy give them.
_OUTPUTS = {"float16": "fp16", "bfloat16": "bf16"}


def check_output(out_dtype: Any, dtype: str) -> str:
    """The name of the output's type for inputs of the type ``dtype``."""
    usual = "bf16" if dtype == "bf16" else "fp16"
    if out_dtype is None:
        return usual
    # torch.bfloat16, numpy.float16 (a class), numpy.dtype("float16"), "bfloat16".
    text = getattr(out_dtype, "name", None) or getattr(out_dtype, "__name__", None) or str(out_dtype)
    name = _OUTPUTS.get(text.removeprefix("torch."))
    if name is None:
        raise ValueError(f"out_dtype: it is {out_dtype}, but must be float16 or bfloat16")
    if dtype != "e4m3" and name != usual:
        raise ValueError(f"out_dtype: only FP8 tensors have a choice; for inputs in {dtype} the output is {usual}")
    return name


def check_layout(layout: str) -> bool:
    """Whether the sequence comes before the heads."""
    if layout not in ("bhsd", "bshd"):
        raise ValueError(f'layout: {layout!r} is not "bhsd" or "bshd"')
    return layout == "bshd"


def check_scale(scale: float | None) -> float | None:
    """The scale as a number."""
    if scale is None:
        return None
    try:
        number = float(scale)
    except (TypeError, ValueError):
        raise TypeError(f"scale: {scale!r} is not a number") from None
    if not 0.0 < number < float("inf"):
        raise ValueError(f"scale: it is {number}, but must be a finite number above 0")
    return number


def check_rank(label: str, shape: tuple[int, ...]) -> None:
    """Refuses a tensor without four axes."""
    if len(shape) != 4:
        raise ValueError(f"{label}: it has {len(shape)} axes, but must have 4")


# ---- Arrays of the host ----

#: Names of element types by NumPy's names. NumPy itself has neither bf16 (ml_dtypes has) nor FP8 (codes are bytes).
_DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "uint8": "e4m3"}


def _on_host(
    q: Any,
    k: Any,
    v: Any,
    mask: str,
    scale: float | None,
    return_lse: bool,
    layout: str,
    scales: tuple[Any, Any, Any],
    out_dtype: Any,
) -> Any:
    """Computes attention of NumPy arrays on the virtual GPU."""
    import numpy

    is_bshd, scale = check_layout(layout), check_scale(scale)
    arrays = []
    for label, value in zip("qkv", (q, k, v)):
        array = numpy.asarray(value)
        check_rank(label, array.shape)
        if array.dtype.name not in _DTYPES:
            raise TypeError(f"{label}: its type is {array.dtype.name}, but must be fp16, bf16 or FP8 (E4M3)")
        arrays.append(array.transpose(0, 2, 1, 3) if is_bshd else array)
    dtypes = [_DTYPES[array.dtype.name] for array in arrays]
    contents = [numpy.ascontiguousarray(array).tobytes() for array in arrays]
    shapes = [array.shape for array in arrays]
    factors = [None if value is None else numpy.ascontiguousarray(value, dtype=numpy.float32) for value in scales]
    name = check_output(out_dtype, dtypes[0])
    kind = numpy.dtype(numpy.float16) if name == "fp16" else arrays[0].dtype
    if name == "bf16" and dtypes[0] != "bf16":
        kind = _bfloat16()
    output, lse = compute(dtypes, shapes, contents, factors, mask, scale, name)
    array = numpy.frombuffer(output, kind).reshape(shapes[0])
    if is_bshd:
        array = array.transpose(0, 2, 1, 3)
    # A copy: the bytes are read-only.
    array = numpy.array(array, order="C")
    if not return_lse:
        return array
    return array, numpy.frombuffer(lse, numpy.float32).reshape(shapes[0][:3]).copy()


def _bfloat16() -> Any:
    """The type of the package ml_dtypes. NumPy has none."""
    try:
        import ml_dtypes
    except ImportError:
        raise _native.UnsupportedError("out_dtype: arrays in bfloat16 need the package ml_dtypes") from None
    import numpy

    return numpy.dtype(ml_dtypes.bfloat16)


def compute(
    dtypes: list[str],
    shapes: list[tuple[int, ...]],
    contents: list[bytes],
    factors: list[Any],
    mask: str,
    scale: float | None,
    output: str | None = None,
) -> tuple[bytes, bytes]:
    """Computes attention of contiguous tensors ``[batch, heads, seq, head_dim]`` on the virtual GPU."""
    for label, dtype in zip("kv", dtypes[1:]):
        if dtype != dtypes[0]:
            raise TypeError(f"{label}: its type is {dtype}, but that of q is {dtypes[0]}")
    for name, factor, shape in zip(("q_scale", "k_scale", "v_scale"), factors, shapes):
        if factor is not None:
            check_factors(name, factor, dtypes[0], shape)
    data = [None if factor is None else factor.tobytes() for factor in factors]
    return device(_VIRTUAL).compute(dtypes[0], shapes, contents, data, mask, scale, output)


def check_factors(name: str, factor: Any, dtype: str, shape: tuple[int, ...]) -> None:
    """Refuses scales of a tensor that is not FP8, or that has another number of heads."""
    if dtype != "e4m3":
        raise ValueError(f"{name}: only FP8 tensors have scales")
    if tuple(factor.shape) != tuple(shape[:2]):
        raise ValueError(f"{name}: its shape is {tuple(factor.shape)}, but must be {tuple(shape[:2])} (batch, heads)")
