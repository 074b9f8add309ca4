"""Attention of PyTorch tensors, and PyTorch's own functions with these kernels."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ._attention import check_factors, check_layout, check_output, check_rank, check_scale, compute, device
from ._native import AttentionDevice, AttentionExchange, AttentionPlan, UnsupportedError

Scales = tuple[Any, Any, Any]

_DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "e4m3"}

#: Types of the output by name.
_OUTPUTS = {"fp16": torch.float16, "bf16": torch.bfloat16}

#: Rows must start on this boundary, in bytes.
_ALIGNMENT = 16


#: The fast way to the native module, of a PyTorch that has DLPack's exchange table (2.10 and later).
_exchange = None
with contextlib.suppress(AttributeError, ValueError):
    _exchange = AttentionExchange(torch.Tensor.__dlpack_c_exchange_api__)

_NO_SCALES: Scales = (None, None, None)

# Global names are found faster than attributes, and a call takes microseconds.
_tensor, _empty_like = torch.Tensor, torch.empty_like
_is_compiling, _is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: str,
    scale: float | None,
    return_lse: bool,
    layout: str,
    scales: Scales = _NO_SCALES,
    out_dtype: Any = None,
) -> Any:
    """See ``warpsmith.attention``."""
    is_operator = _is_compiling() or type(q) is not _tensor or _needs_gradient(q, k, v)
    if (
        not is_operator and _exchange is not None and scales is _NO_SCALES and q.is_cuda and not return_lse
        and out_dtype is None
        and type(k) is _tensor and type(v) is _tensor and (layout == "bhsd" or layout == "bshd")
    ):  # fmt: skip
        output = _empty_like(q)
        if _exchange.launch(q, k, v, output, 0, mask, scale, layout == "bshd"):
            return output
    is_bshd = check_layout(layout)
    if scale is not None:
        scale = check_scale(scale)
    if is_bshd:
        for label, tensor in zip("qkv", (q, k, v)):
            if isinstance(tensor, torch.Tensor):
                check_rank(label, tuple(tensor.shape))
        q, k, v = (it.transpose(1, 2) if isinstance(it, torch.Tensor) else it for it in (q, k, v))
    if is_operator:
        check(q, k, v, scales)
        wanted = None if out_dtype is None else _output(q, out_dtype)
        output, lse = torch.ops.warpsmith.attention(q, k, v, mask, scale, *scales, wanted)
    elif q.is_cuda:
        output, lse = _on_gpu(q, k, v, mask, scale, return_lse, scales, out_dtype)
    else:
        output, lse = _on_cpu(q, k, v, mask, scale, scales, out_dtype)
    if is_bshd:
        output = output.transpose(1, 2)
    return (output, lse) if return_lse else output


def _needs_gradient(q: Any, k: Any, v: Any) -> bool:
    if not _is_grad_enabled():
        return False
    try:
        return q.requires_grad or k.requires_grad or v.requires_grad
    except AttributeError:
        # Not tensors. The checks will say so.
        return False


def _output(q: torch.Tensor, out_dtype: Any) -> torch.dtype:
    """The type of the output. Inputs of other types than the supported ones are refused elsewhere."""
    return _OUTPUTS[check_output(out_dtype, _DTYPES.get(q.dtype, ""))]


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scales: Scales) -> None:
    """Refuses tensors that do not fit together, with an error that names the argument."""
    for label, tensor in zip("qkv", (q, k, v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{label}: it is a {type(tensor).__name__}, but q is a tensor of PyTorch")
        check_rank(label, tuple(tensor.shape))
        if tensor.dtype not in _DTYPES:
            raise TypeError(f"{label}: its type is {tensor.dtype}, but must be float16, bfloat16 or float8_e4m3fn")
        if tensor.layout != torch.strided:
            raise TypeError(f"{label}: its layout is {tensor.layout}, but must be strided")
        if tensor.dtype != q.dtype:
            raise TypeError(f"{label}: its type is {tensor.dtype}, but that of q is {q.dtype}")
        if tensor.device != q.device:
            raise ValueError(f"{label}: it is on {tensor.device}, but q is on {q.device}")
    if q.device.type not in ("cuda", "cpu", "meta"):
        raise ValueError(f"q: it is on {q.device}, but must be on a CUDA GPU or the CPU")
    batch, heads, _, head_dim = q.shape
    if k.shape[0] != batch:
        raise ValueError(f"k: its batch is {k.shape[0]}, but that of q is {batch}")
    if k.shape[3] != head_dim:
        raise ValueError(f"k: its head_dim is {k.shape[3]}, but that of q is {head_dim}")
    if v.shape != k.shape:
        raise ValueError(f"v: its shape is {tuple(v.shape)}, but that of k is {tuple(k.shape)}")
    if k.shape[1] == 0 or heads % k.shape[1] != 0:
        raise ValueError(f"k: q has {heads} heads, which is not a multiple of its {k.shape[1]} heads")
    for name, factor, tensor in zip(("q_scale", "k_scale", "v_scale"), scales, (q, k, v)):
        if factor is None:
            continue
        if not isinstance(factor, torch.Tensor) or factor.dtype != torch.float32:
            raise TypeError(f"{name}: it must be a float32 tensor")
        check_factors(name, factor, _DTYPES[q.dtype], tuple(tensor.shape))
        if factor.device != q.device:
            raise ValueError(f"{name}: it is on {factor.device}, but q is on {q.device}")


# ---- On a GPU ----

#: Plans by shapes, strides, types and options.
_plans: dict[Any, Planned] = {}

#: Most plans to keep.
_MOST_PLANS = 4096


class Planned:
    """A plan, the strides of its output, and which of the tensors must be copied first."""

    __slots__ = ("launch", "plan", "strides", "shape", "dtype", "lse_shape", "copies", "workspace")

    def __init__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: str, scale: float | None, out_dtype: Any
    ) -> None:
        self.copies = tuple(not _is_usable(tensor) for tensor in (q, k, v))
        if any(self.copies):
            return
        name = check_output(out_dtype, _DTYPES[q.dtype])
        output = torch.empty_like(q, dtype=_OUTPUTS[name], device="meta")
        if not _is_usable(output) or 0 in output.stride():
            output = torch.empty(q.shape, dtype=output.dtype, device="meta")
        self.shape, self.strides, self.dtype = output.shape, output.stride(), output.dtype
        self.lse_shape = q.shape[:3]
        of_q, of_k, of_v, of_o = ((tuple(it.shape), it.stride()[:3]) for it in (q, k, v, output))
        owner = _opened(q.get_device())
        self.plan: AttentionPlan = owner.plan(_DTYPES[q.dtype], of_q, of_k, of_v, of_o, mask, scale, name)
        self.launch, self.workspace = self.plan.launch, self.plan.workspace_bytes


@functools.cache
def _opened(index: int) -> AttentionDevice:
    """The GPU with this number. The fast way serves it from now on."""
    owner = device(f"cuda:{index}")
    if _exchange is not None:
        _exchange.add(index, owner)
    return owner


def _is_usable(tensor: torch.Tensor) -> bool:
    """Whether kernels can read the tensor: contiguous rows, aligned strides, no stride of 0."""
    *axes, (extent, step) = zip(tensor.shape, tensor.stride())
    if tensor.numel() == 0:
        return True
    item = tensor.element_size()
    fits = all(extent == 1 or (step > 0 and step * item % _ALIGNMENT == 0 and step < 1 << 32) for extent, step in axes)
    return fits and (extent == 1 or step == 1)


def _on_gpu(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: str,
    scale: float | None,
    want_lse: bool,
    scales: Scales,
    out_dtype: Any = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    try:
        key = (
            q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), q.dtype, k.dtype, v.dtype,
            q.get_device(), k.get_device(), v.get_device(), mask, scale, out_dtype,
        )  # fmt: skip
        planned = _plans.get(key)
    except AttributeError:
        planned = None
    has_scales = scales[0] is not None or scales[1] is not None or scales[2] is not None
    if planned is None or has_scales:
        check(q, k, v, scales)
    if planned is None:
        planned = Planned(q, k, v, mask, scale, out_dtype)
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[key] = planned
    q_address, k_address, v_address = q.data_ptr(), k.data_ptr(), v.data_ptr()
    copies = planned.copies
    if (q_address | k_address | v_address) % _ALIGNMENT:
        copies = tuple(copy or it.data_ptr() % _ALIGNMENT != 0 for copy, it in zip(copies, (q, k, v)))
    if True in copies:
        q, k, v = (_copied(it) if copy else it for copy, it in zip(copies, (q, k, v)))
        return _on_gpu(q, k, v, mask, scale, want_lse, scales, out_dtype)
    index = key[9]
    output = torch.empty_strided(planned.shape, planned.strides, dtype=planned.dtype, device=q.device)
    lse, lse_address = None, 0
    if want_lse:
        lse = torch.empty(planned.lse_shape, dtype=torch.float32, device=q.device)
        lse_address = lse.data_ptr()
    stream = torch._C._cuda_getCurrentRawStream(index)
    if not has_scales and planned.workspace == 0:
        planned.launch(stream, 0, q_address, k_address, v_address, output.data_ptr(), lse_address)
        return output, lse
    factors = [None if it is None else it.contiguous() for it in scales]
    addresses = [0 if it is None else it.data_ptr() for it in factors]
    workspace = torch.empty(planned.workspace, dtype=torch.uint8, device=q.device)
    planned.launch(
        stream, workspace.data_ptr(), q_address, k_address, v_address, output.data_ptr(), lse_address, *addresses
    )
    return output, lse


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy whose rows are contiguous and aligned. PyTorch's allocations are."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


# ---- On the CPU: the virtual GPU ----


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def _on_cpu(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: str,
    scale: float | None,
    scales: Scales,
    out_dtype: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check(q, k, v, scales)
    name = check_output(out_dtype, _DTYPES[q.dtype])
    tensors = (q, k, v)
    factors = [None if it is None else it.detach().contiguous().numpy() for it in scales]
    data = [_bytes(it) for it in tensors]
    output, lse = compute(
        [_DTYPES[it.dtype] for it in tensors], [tuple(it.shape) for it in tensors], data, factors, mask, scale, name
    )
    result = torch.empty(q.shape, dtype=_OUTPUTS[name])
    sums = torch.empty(q.shape[:3], dtype=torch.float32)
    if result.numel():
        result.view(-1).view(torch.uint8).copy_(torch.frombuffer(bytearray(output), dtype=torch.uint8))
        sums.view(-1).copy_(torch.frombuffer(bytearray(lse), dtype=torch.float32))
    return result, sums


# ---- The operator of torch.library: for torch.compile and for gradients ----

torch.library.define(
    "warpsmith::attention",
    "(Tensor q, Tensor k, Tensor v, str mask, float? scale, Tensor? q_scale, Tensor? k_scale, Tensor? v_scale,"
    " ScalarType? out_dtype=None) -> (Tensor, Tensor)",
)


@torch.library.impl("warpsmith::attention", "CUDA")
def _cuda_op(q, k, v, mask, scale, q_scale, k_scale, v_scale, out_dtype=None):  # type: ignore[no-untyped-def]
    return _on_gpu(q, k, v, mask, scale, True, (q_scale, k_scale, v_scale), out_dtype)


@torch.library.impl("warpsmith::attention", "CPU")
def _cpu_op(q, k, v, mask, scale, q_scale, k_scale, v_scale, out_dtype=None):  # type: ignore[no-untyped-def]
    return _on_cpu(q, k, v, mask, scale, (q_scale, k_scale, v_scale), out_dtype)


@torch.library.register_fake("warpsmith::attention")
def _fake_op(q, k, v, mask, scale, q_scale, k_scale, v_scale, out_dtype=None):  # type: ignore[no-untyped-def]
    dtype = _output(q, out_dtype) if q.dtype in _DTYPES else q.dtype
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if q.device.type == "cpu":
        return torch.empty(q.shape, dtype=dtype, device=q.device), lse
    return torch.empty_like(q, dtype=dtype), lse


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    q, k, v, mask, scale, *scales, _ = inputs
    if any(it is not None for it in scales) or q.dtype == torch.float8_e4m3fn:
        raise UnsupportedError("q: there are no gradients of FP8 tensors")
    ctx.save_for_backward(q, k, v, *output)
    ctx.mask, ctx.scale = mask, scale
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, gradient: torch.Tensor, _lse: Any) -> tuple[Any, ...]:
    q, k, v, output, lse = ctx.saved_tensors
    scale = 1.0 / math.sqrt(q.shape[-1]) if ctx.scale is None else ctx.scale
    is_square = q.shape[2] == k.shape[2]
    # PyTorch's kernel for gradients has one causal mask; both of ours are equal to it if the mask is square.
    if q.is_cuda and q.shape[1] == k.shape[1] and (ctx.mask == "none" or is_square) and 0 not in q.shape + k.shape:
        empty = torch.empty(0, dtype=torch.uint64, device=q.device)
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            gradient, q, k, v, output, lse, None, None, q.shape[2], k.shape[2], 0.0, ctx.mask != "none",
            empty, empty, scale=scale,
        )  # fmt: skip
    else:
        gradients = _gradients(q, k, v, gradient, ctx.mask, scale)
    return (*gradients, None, None, None, None, None, None)


def _gradients(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gradient: torch.Tensor, mask: str, scale: float
) -> tuple[torch.Tensor, ...]:
    """Gradients by the definition. Rows without keys have the output 0, and no gradient."""
    group = q.shape[1] // max(1, k.shape[1])
    keys, values = (it.float().repeat_interleave(group, 1) for it in (k, v))
    scores = scale * q.float() @ keys.transpose(-1, -2)
    hidden = hidden_keys(mask, q.shape[2], k.shape[2], q.device)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.nan_to_num(torch.softmax(scores, -1)) if k.shape[2] else scores
    upstream = gradient.float()
    of_values = weights.transpose(-1, -2) @ upstream
    of_weights = upstream @ values.transpose(-1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True)) * scale
    of_keys = of_scores.transpose(-1, -2) @ q.float()
    per_head = [it.unflatten(1, (k.shape[1], group)).sum(2) for it in (of_keys, of_values)]
    return (of_scores @ keys).to(q.dtype), per_head[0].to(k.dtype), per_head[1].to(v.dtype)


def hidden_keys(mask: str, queries: int, keys: int, where: Any) -> torch.Tensor | None:
    """Which keys each query does not see; ``None`` if it sees all."""
    if mask == "none":
        return None
    shift = keys - queries if mask == "causal" else 0
    visible = torch.ones(queries, keys, dtype=torch.bool, device=where).tril(shift)
    return ~visible


torch.library.register_autograd("warpsmith::attention", _backward, setup_context=_keep_for_backward)


# ---- PyTorch's own function ----

_original: Callable[..., torch.Tensor] | None = None


def _serves(q: Any, k: Any, v: Any, attn_mask: Any, dropout_p: float, scale: float | None, enable_gqa: bool) -> bool:
    """Whether a call of ``scaled_dot_product_attention`` is one that these kernels compute."""
    if attn_mask is not None or dropout_p != 0.0 or (scale is not None and not 0.0 < scale < math.inf):
        return False
    if not all(isinstance(it, torch.Tensor) and it.is_cuda and it.dim() == 4 for it in (q, k, v)):
        return False
    if q.dtype not in (torch.float16, torch.bfloat16) or not q.dtype == k.dtype == v.dtype:
        return False
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or 0 in (*q.shape, *k.shape):
        return False
    if q.shape[3] not in HEAD_DIMS or not q.device == k.device == v.device:
        return False
    return q.shape[1] == k.shape[1] or (enable_gqa and q.shape[1] % k.shape[1] == 0)


#: Head dimensions for which there are kernels.
HEAD_DIMS = frozenset((64, 80, 96, 128, 256))


def use_as_sdpa(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """Lets ``torch.nn.functional.scaled_dot_product_attention`` use these kernels.

    Calls that they do not support (an explicit mask, dropout, fp32, tensors of the CPU, other head dimensions) are
    computed by PyTorch as before. Code that imported the function by name before this call keeps PyTorch's. As a
    context manager it ends with the ``with`` statement; ``use_as_sdpa(False)`` ends it, too.
    """
    global _original
    functional = torch.nn.functional
    if enabled and _original is None:
        _original = functional.scaled_dot_product_attention
        functional.scaled_dot_product_attention = _sdpa(_original)
    elif not enabled and _original is not None:
        functional.scaled_dot_product_attention = _original
        _original = None
    return _until_end()


@contextlib.contextmanager
def _until_end() -> Iterator[None]:
    try:
        yield
    finally:
        use_as_sdpa(False)


def _sdpa(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def scaled_dot_product_attention(  # type: ignore[no-untyped-def]
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
    ):
        if _serves(query, key, value, attn_mask, dropout_p, scale, enable_gqa):
            mask = "causal-tl" if is_causal else "none"
            return attention(query, key, value, mask, scale, False, "bhsd")
        return original(
            query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale,
            enable_gqa=enable_gqa,
        )  # fmt: skip

    return scaled_dot_product_attention


# ---- PyTorch's operator for FlashAttention ----

#: The name of the implementation in PyTorch's registry.
_IMPLEMENTATION = "warpsmith"

_FLASH = "_scaled_dot_product_flash_attention"


class _FlashHandle:
    """Keeps the registration of the operator. PyTorch calls ``remove`` to restore its own."""

    def __init__(self, library: torch.library.Library) -> None:
        self.library: torch.library.Library | None = library

    def remove(self) -> None:
        self.library = None


def _register_flash() -> _FlashHandle:
    own = torch.library.get_kernel(f"aten::{_FLASH}", "CUDA")

    def flash(keys, query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):  # type: ignore[no-untyped-def]
        is_square = query.shape[2] == key.shape[2]
        served = _serves(query, key, value, None, dropout_p, scale, True)
        if not served or return_debug_mask or (is_causal and not is_square):
            return own.call_boxed(keys, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale)
        mask = "causal" if is_causal else "none"
        output, lse = _on_gpu(query, key, value, mask, scale, True, _NO_SCALES)
        # Without dropout nothing reads the state of the random numbers.
        seed = torch.empty(2, dtype=torch.uint64, device=query.device)
        offset = torch.empty((), dtype=torch.uint64, device=query.device)
        debug = torch.empty(0, dtype=query.dtype, device=query.device)
        return output, lse, None, None, query.shape[2], key.shape[2], seed, offset, debug

    library = torch.library.Library("aten", "IMPL", "CUDA")
    with warnings.catch_warnings():
        # The override is what the user asked for.
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        library.impl(_FLASH, flash, "CUDA", with_keyset=True, allow_override=True)
    return _FlashHandle(library)


def use_as_flash() -> contextlib.AbstractContextManager[None]:
    """Lets PyTorch's flash backend use these kernels, wherever it is called from, also in C++.

    ``scaled_dot_product_attention`` takes the flash backend if PyTorch selects it, or inside
    ``sdpa_kernel(SDPBackend.FLASH_ATTENTION)``. Calls that these kernels do not support use PyTorch's kernel.
    ``torch.nn.attention.restore_flash_attention_impl()`` ends it, and so does the end of a ``with`` statement.
    """
    try:
        from torch.nn.attention import activate_flash_attention_impl, register_flash_attention_impl
    except ImportError:
        raise UnsupportedError(f"PyTorch {torch.__version__} has no registry of flash implementations") from None
    register_flash_attention_impl(_IMPLEMENTATION, register_fn=_register_flash)
    activate_flash_attention_impl(_IMPLEMENTATION)
    return _until_restored()


@contextlib.contextmanager
def _until_restored() -> Iterator[None]:
    from torch.nn.attention import restore_flash_attention_impl

    try:
        yield
    finally:
        restore_flash_attention_impl()


def attention_for_transformers(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, **options: Any
) -> tuple[torch.Tensor, None]:
    """The function that ``transformers`` calls for ``attn_implementation="warpsmith"``."""
    scale, dropout = options.get("scaling"), options.get("dropout", 0.0)
    is_causal = options.get("is_causal")
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    is_causal = bool(is_causal) and query.shape[2] > 1 and attention_mask is None
    if _serves(query, key, value, attention_mask, dropout, scale, True):
        # One mask for prompts with and without cached keys: the last query sees all keys.
        mask = "causal" if is_causal else "none"
        output = attention(query, key, value, mask, scale, False, "bhsd")
    else:
        hidden = hidden_keys("causal", query.shape[2], key.shape[2], query.device)
        if is_causal and hidden is not None and query.shape[2] != key.shape[2]:
            attention_mask, is_causal = ~hidden, False
        output = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, dropout_p=dropout, is_causal=is_causal, scale=scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )  # fmt: skip
    return output.transpose(1, 2).contiguous(), None


def register_with_transformers() -> None:
    """Makes ``attn_implementation="warpsmith"`` known to ``transformers``."""
    from transformers import AttentionInterface

    AttentionInterface.register("warpsmith", attention_for_transformers)
