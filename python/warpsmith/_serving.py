"""Attention over caches and packed sequences, with the functions and the semantics of the package flash-attn.

The last query of a sequence is at the position of its last key (bottom-right causal masks), windows are inclusive, the
log-sum-exp is natural, and rows that see no key are zeros. Lengths and tables are read on the device only: a CUDA graph
can be replayed after they changed.

CUDA tensors of PyTorch are computed on the GPU, arrays and tensors of the CPU on the virtual GPU.
"""

from __future__ import annotations

import sys
from typing import Any

from ._attention import _DTYPES, check_scale, device
from ._native import UnsupportedError

_VIRTUAL = "virtual:h200"

#: Plans by shapes, strides, types and options.
_plans: dict[Any, Any] = {}

#: Most plans to keep.
_MOST_PLANS = 4096


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: Any = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    block_table: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """``flash_attn.flash_attn_with_kvcache``: attention of new queries over a cache.

    ``q``: ``[batch, queries, heads, head_dim]``. ``k_cache`` and ``v_cache``: ``[batch, keys, kv_heads, head_dim]``, or with
    ``block_table`` (int32 ``[batch, pages]``) ``[pages, page size, kv_heads, head_dim]`` with any page size. ``cache_seqlens``:
    the keys of each sequence, int32 ``[batch]``, or one number for all; entries of the table beyond them are not read.

    Returns the output, and with ``return_softmax_lse=True`` the log-sum-exp, fp32 ``[batch, heads, queries]``.

    Refused: new keys (``k``, ``v``), rotary embeddings, ``cache_batch_idx``, ``cache_leftpad``, ALiBi, and a number of splits:
    the kernel divides the keys itself.
    """
    _refuse(
        {
            "k": (k is not None or v is not None, "new keys and values are not written to the cache; write them before"),
            "rotary_cos": (rotary_cos is not None or rotary_sin is not None, "rotate queries and keys before the call"),
            "cache_batch_idx": (cache_batch_idx is not None, "not supported; use block_table"),
            "cache_leftpad": (cache_leftpad is not None, "not supported"),
            "alibi_slopes": (alibi_slopes is not None, "not supported"),
            "num_splits": (num_splits != 0, "the kernel divides the keys itself; leave it 0"),
        }
    )
    call = _Call(q, k_cache, v_cache, ("q", "k_cache", "v_cache"), 4, 4)
    batch = call.shapes[0][0]
    if block_table is None and call.shapes[1][0] != batch:
        raise ValueError(f"k_cache: its batch is {call.shapes[1][0]}, but that of q is {batch}")
    if cache_seqlens is not None:
        call.add("cache_seqlens", 0, cache_seqlens, (batch,))
    if block_table is not None:
        call.add_table(block_table, batch)
    output, lse = call.run(causal, softmax_scale, window_size, softcap)
    return (output, lse) if return_softmax_lse else output


def windowed(q: Any, k: Any, v: Any, causal: Any, scale: Any, window_size: Any, softcap: Any) -> tuple[Any, Any]:
    """Attention of tensors ``[batch, seq, heads, head_dim]`` with a window or a cap: the output and the log-sum-exp."""
    call = _Call(q, k, v, ("q", "k", "v"), 4, 4)
    if call.shapes[1][0] != call.shapes[0][0]:
        raise ValueError(f"k: its batch is {call.shapes[1][0]}, but that of q is {call.shapes[0][0]}")
    return call.run(causal, scale, window_size, softcap)


def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Any = None,
) -> Any:
    """``flash_attn.flash_attn_varlen_func``: sequences that follow one another.

    ``q``: ``[tokens, heads, head_dim]``; ``k`` and ``v``: ``[tokens, kv_heads, head_dim]``, or with ``block_table`` pages as for
    ``flash_attn_with_kvcache``. ``cu_seqlens_q`` and ``cu_seqlens_k``: where each sequence begins, and the end of the last one,
    int32 ``[batch + 1]``. ``max_seqlen_q`` and ``max_seqlen_k`` must be at least the longest lengths.

    Returns the output; with ``return_attn_probs=True`` also the log-sum-exp, fp32 ``[heads, tokens]``, and None for the
    probabilities, which only dropout has. Results are always deterministic. Dropout and ALiBi are refused. There are no
    gradients.
    """
    _refuse(
        {
            "dropout_p": (dropout_p != 0.0, "not supported"),
            "alibi_slopes": (alibi_slopes is not None, "not supported"),
        }
    )
    call = _Call(q, k, v, ("q", "k", "v"), 3, 3 if block_table is None else 4)
    batch = _extent("cu_seqlens_q", cu_seqlens_q) - 1
    if batch < 0:
        raise ValueError("cu_seqlens_q: it is empty, but must have the end of the last sequence")
    call.packed = [batch, _whole("max_seqlen_q", max_seqlen_q), _whole("max_seqlen_k", max_seqlen_k)]
    call.packed[1] = min(call.packed[1], call.shapes[0][2])
    call.add("cu_seqlens_q", 2, cu_seqlens_q, (batch + 1,))
    call.add("cu_seqlens_k", 3, cu_seqlens_k, (batch + 1,))
    if block_table is not None:
        call.add_table(block_table, batch)
    output, lse = call.run(causal, softmax_scale, window_size, softcap)
    return (output, lse, None) if return_attn_probs else output


def _refuse(asked: dict[str, tuple[bool, str]]) -> None:
    for name, (is_set, reason) in asked.items():
        if is_set:
            raise UnsupportedError(f"{name}: {reason}")


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 0:
        raise TypeError(f"{name}: {value!r} is not a whole number, at least 0")
    return int(value)


def _extent(name: str, array: Any) -> int:
    shape = getattr(array, "shape", None)
    if shape is None or len(shape) != 1:
        raise TypeError(f"{name}: it must be an array of int32 with one axis")
    return int(shape[0])


def _window(window_size: Any) -> tuple[int | None, int | None] | None:
    """The keys before and after a query's own position; None for all of a side."""
    try:
        left, right = (int(it) for it in window_size)
    except (TypeError, ValueError):
        raise TypeError(f"window_size: {window_size!r} is not a pair of whole numbers") from None
    if left < 0 and right < 0:
        return None
    return (None if left < 0 else left, None if right < 0 else right)


class _Call:
    """The tensors of one call: of the host as bytes, of a GPU by their addresses."""

    def __init__(self, q: Any, k: Any, v: Any, labels: tuple[str, str, str], rank: int, key_rank: int) -> None:
        torch = sys.modules.get("torch")
        self.torch = torch if torch is not None and isinstance(q, torch.Tensor) else None
        self.tensors, self.labels = [], labels
        self.shapes: list[tuple[int, int, int, int]] = []  # batch, heads, positions, head_dim
        self.strides: list[tuple[int, int, int]] = []
        for label, value, axes in zip(labels, (q, k, v), (rank, key_rank, key_rank)):
            self._take(label, value, axes)
        if self.dtypes[1] != self.dtypes[0] or self.dtypes[2] != self.dtypes[0]:
            raise TypeError(f"{labels[1]}: its type is {self.dtypes[1]}, but that of q is {self.dtypes[0]}")
        if self.dtypes[0] not in ("fp16", "bf16"):
            raise UnsupportedError(f"q: its type is {self.dtypes[0]}, but must be fp16 or bf16")
        if self.shapes[2] != self.shapes[1]:
            raise ValueError(f"{labels[2]}: its shape differs from that of {labels[1]}")
        if self.shapes[1][3] != self.shapes[0][3]:
            raise ValueError(f"{labels[1]}: its head_dim is {self.shapes[1][3]}, but that of q is {self.shapes[0][3]}")
        self.arrays: list[Any] = [None] * 5  # key_lengths, page_table, query_starts, key_starts, sinks
        self.pages_of_sequence: int | None = None
        self.packed: list[int] | None = None

    @property
    def is_on_gpu(self) -> bool:
        return self.torch is not None and self.tensors[0].is_cuda

    def _take(self, label: str, value: Any, axes: int) -> None:
        if self.torch is not None:
            from ._torch import _DTYPES as types

            if not isinstance(value, self.torch.Tensor):
                raise TypeError(f"{label}: it is a {type(value).__name__}, but q is a tensor of PyTorch")
            if value.requires_grad and self.torch.is_grad_enabled():
                raise UnsupportedError(f"{label}: it requires gradients, which are not computed; use torch.no_grad()")
            if value.device != (self.tensors[0] if self.tensors else value).device:
                raise ValueError(f"{label}: it is on {value.device}, but q is on {self.tensors[0].device}")
            if value.device.type not in ("cuda", "cpu"):
                raise ValueError(f"{label}: it is on {value.device}, but must be on a CUDA GPU or the CPU")
            name = types.get(value.dtype, str(value.dtype))
        else:
            import numpy

            value = numpy.asarray(value)
            name = _DTYPES.get(value.dtype.name, value.dtype.name)
        if len(value.shape) != axes:
            raise ValueError(f"{label}: it has {len(value.shape)} axes, but must have {axes}")
        if self.is_cuda(value):
            from ._torch import _copied, _is_usable

            if not _is_usable(value) or value.data_ptr() % 16:
                if label != "q":
                    raise ValueError(f"{label}: rows of head_dim must be contiguous and begin at multiples of 16 bytes")
                value = _copied(value)
            steps = value.stride()
        else:
            steps, step = [], 1
            for extent in reversed(value.shape):
                steps.insert(0, step)
                step *= int(extent)
        self.dtypes = [*getattr(self, "dtypes", []), name]
        self.tensors.append(value)
        extents, steps = [int(it) for it in value.shape], [int(it) for it in steps]
        if axes == 3:
            extents, steps = [1, *extents], [extents[0] * steps[0], *steps]
        batch, positions, heads, width = extents
        self.shapes.append((batch, heads, positions, width))
        self.strides.append((steps[0], steps[2], steps[1]))

    def is_cuda(self, value: Any) -> bool:
        return self.torch is not None and bool(value.is_cuda)

    def add(self, label: str, place: int, value: Any, shape: tuple[int, ...]) -> None:
        """Adds an array of int32."""
        if self.torch is not None:
            torch, where = self.torch, self.tensors[0].device
            if not isinstance(value, torch.Tensor):
                number = _whole(label, value)
                value = torch.full(shape, number, dtype=torch.int32, device=where)
            if value.dtype != torch.int32:
                raise TypeError(f"{label}: its type is {value.dtype}, but must be int32")
            if value.device != where:
                raise ValueError(f"{label}: it is on {value.device}, but q is on {where}")
            value = value.contiguous()
        else:
            import numpy

            if not hasattr(value, "dtype"):
                value = numpy.full(shape, _whole(label, value), numpy.int32)
            if value.dtype != numpy.int32:
                raise TypeError(f"{label}: its type is {value.dtype}, but must be int32")
            value = numpy.ascontiguousarray(value)
        if tuple(value.shape) != shape:
            raise ValueError(f"{label}: its shape is {tuple(value.shape)}, but must be {shape}")
        self.arrays[place] = value

    def add_table(self, table: Any, batch: int) -> None:
        shape = getattr(table, "shape", ())
        if len(shape) != 2:
            raise TypeError("block_table: it must be an array of int32 with two axes")
        self.pages_of_sequence = int(shape[1])
        self.add("block_table", 1, table, (batch, self.pages_of_sequence))

    def run(self, causal: Any, scale: Any, window_size: Any, softcap: Any) -> tuple[Any, Any]:
        """The output, and the log-sum-exp."""
        if causal is not False and causal is not True:
            raise ValueError(f"causal: {causal!r} is not True or False")
        softcap = float(softcap)
        if not 0.0 <= softcap < float("inf"):
            raise ValueError(f"softcap: it is {softcap}, but must be a finite number, at least 0")
        sizes = (self.pages_of_sequence, self.packed, _window(window_size), softcap)
        mask, scale = "causal" if causal else "none", check_scale(scale)
        batch, heads, positions, _ = self.shapes[0]
        rows = (heads, positions) if self.packed is not None else (batch, heads, positions)
        if self.is_on_gpu:
            return self._on_gpu(mask, scale, sizes, rows)
        if self.torch is not None:
            return self._on_cpu(mask, scale, sizes, rows)
        import numpy

        q = self.tensors[0]
        data = [numpy.ascontiguousarray(it).tobytes() for it in self.tensors]
        arrays = [None if it is None else it.tobytes() for it in self.arrays]
        output, lse = self._compute(data, mask, scale, sizes, arrays)
        result = numpy.frombuffer(output, q.dtype).reshape(q.shape).copy()
        return result, numpy.frombuffer(lse, numpy.float32).reshape(rows).copy()

    def _compute(self, data: Any, mask: str, scale: Any, sizes: Any, arrays: Any) -> tuple[bytes, bytes]:
        described = list(zip(self.shapes, self.strides))
        return device(_VIRTUAL).compute_served(self.dtypes[0], described, data, mask, scale, sizes, arrays)

    def _on_cpu(self, mask: str, scale: Any, sizes: Any, rows: tuple[int, ...]) -> tuple[Any, Any]:
        from ._torch import _bytes

        torch, q = self.torch, self.tensors[0]
        arrays = [None if it is None else _bytes(it) for it in self.arrays]
        output, lse = self._compute([_bytes(it) for it in self.tensors], mask, scale, sizes, arrays)
        result, sums = torch.empty(q.shape, dtype=q.dtype), torch.empty(rows, dtype=torch.float32)
        if result.numel():
            result.view(-1).view(torch.uint8).copy_(torch.frombuffer(bytearray(output), dtype=torch.uint8))
            sums.view(-1).copy_(torch.frombuffer(bytearray(lse), dtype=torch.float32))
        return result, sums

    def _on_gpu(self, mask: str, scale: Any, sizes: Any, rows: tuple[int, ...]) -> tuple[Any, Any]:
        torch, (q, k, v) = self.torch, self.tensors
        output = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(rows, dtype=torch.float32, device=q.device)
        addresses = [0 if it is None else it.data_ptr() for it in self.arrays]
        pages, packed, window, softcap = sizes
        index = q.get_device()
        key = (
            index, self.dtypes[0], tuple(self.shapes), tuple(self.strides), mask, scale, pages,
            None if packed is None else tuple(packed), window, softcap, tuple(it != 0 for it in addresses),
        )  # fmt: skip
        plan = _plans.get(key)
        if plan is None:
            from ._torch import _opened

            o = (self.shapes[0], self._output_strides())
            described = [*zip(self.shapes, self.strides), o]
            present = [int(it != 0) for it in addresses]
            plan = _opened(index).plan_served(self.dtypes[0], *described, mask, scale, sizes, present)
            if len(_plans) >= _MOST_PLANS:
                _plans.clear()
            _plans[key] = plan
        workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device=q.device)
        stream = torch._C._cuda_getCurrentRawStream(index)
        tensors = [q.data_ptr(), k.data_ptr(), v.data_ptr(), output.data_ptr(), lse.data_ptr()]
        plan.launch(stream, workspace.data_ptr(), tensors, addresses)
        return output, lse

    def _output_strides(self) -> tuple[int, int, int]:
        _, heads, positions, width = self.shapes[0]
        return (positions * heads * width, width, heads * width)
