"""A CUDA device of PyTorch that does not exist: tensors "on" it are on the CPU.

While it is active, ``torch.cuda.is_available()`` is true, ``device="cuda"`` gives a tensor whose ``device`` is
``cuda:0`` and whose memory is that of the CPU, and ``.cpu()``, ``.cuda()`` and ``.to()`` copy between the two. So test
suites that were written for a GPU run without a change: their kernels go to the virtual GPU, all other work to the CPU.
Whatever needs a real GPU (streams that overlap, measured times, graphs) raises :class:`warpsmith.UnsupportedError` with
the reason.

A tensor is on the device if its storage was made for it, so views, gradients and results of in-place functions are, too.
The result of a function is on the device if one of its arguments is.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from . import _native

_CPU = torch.device("cpu")
_CUDA = torch.device("cuda", 0)
#: The storages on the virtual device, by their address, with the address and size of their memory. A weak reference keeps
#: the address from being used again.
_storages: dict[int, tuple[StorageWeakRef, int, int]] = {}
_lock = threading.RLock()
#: How many blocks are active, and what they replaced.
_depth = 0
_replaced: list[tuple[Any, str, Any]] = []
_mode: _Mode | None = None


def _is_cuda_device(value: Any) -> bool:
    if isinstance(value, str):
        return value.split(":")[0] == "cuda"
    return isinstance(value, torch.device) and value.type == "cuda"


def _is_marked(tensor: torch.Tensor) -> bool:
    try:
        storage = _storages.get(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return False  # sparse and fake tensors have no storage
    return storage is not None and not storage[0].expired()


def _mark(value: Any) -> Any:
    for tensor in _tensors(value):
        with contextlib.suppress(NotImplementedError, RuntimeError):
            storage = tensor.untyped_storage()
            _storages[storage._cdata] = StorageWeakRef(storage), storage.data_ptr(), storage.nbytes()
    if len(_storages) > 4096:
        for key in [key for key, storage in list(_storages.items()) if storage[0].expired()]:
            del _storages[key]
    return value


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


class _Mode(TorchFunctionMode):
    """Sees every call of a function of PyTorch, and every access to an attribute of a tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        special = _SPECIAL.get(func)
        if special is not None:
            return special(func, args, kwargs)
        wanted = kwargs.get("device")
        is_wanted = _is_cuda_device(wanted) or isinstance(wanted, int) and not isinstance(wanted, bool)
        if is_wanted:
            kwargs["device"] = _CPU
        args = tuple(_CPU if _is_cuda_device(it) and isinstance(it, torch.device) else it for it in args)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        result = func(*args, **kwargs)
        if is_wanted or wanted is None and any(_is_marked(it) for it in _tensors([*args, *kwargs.values()])):
            _mark(result)
        return result


def _device(func: Any, args: Any, kwargs: Any) -> Any:
    return _CUDA if _is_marked(args[0]) else func(*args, **kwargs)


def _is_cuda(func: Any, args: Any, kwargs: Any) -> bool:
    return _is_marked(args[0])


def _is_cpu(func: Any, args: Any, kwargs: Any) -> bool:
    return not _is_marked(args[0])


def _get_device(func: Any, args: Any, kwargs: Any) -> int:
    return 0 if _is_marked(args[0]) else -1


def _to_cuda(func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    return tensor if _is_marked(tensor) else _mark(tensor.clone())


def _to_cpu(func: Any, args: Any, kwargs: Any) -> Any:
    tensor = args[0]
    # A clone, because a copy from a GPU has memory of its own.
    return tensor.clone() if _is_marked(tensor) else tensor


def _to(func: Any, args: Any, kwargs: Any) -> Any:
    tensor, *rest = args
    other = next((it for it in rest if isinstance(it, torch.Tensor)), kwargs.get("other"))
    targets = [it for it in [*rest, kwargs.get("device")] if isinstance(it, (str, torch.device))]
    if isinstance(other, torch.Tensor):
        is_cuda = _is_marked(other)
    elif targets:
        is_cuda = _is_cuda_device(targets[0])
    else:
        is_cuda = _is_marked(tensor)
    rest = [_CPU if isinstance(it, (str, torch.device)) else it for it in rest]
    if kwargs.get("device") is not None:
        kwargs["device"] = _CPU
    result = func(tensor, *rest, **kwargs)
    if is_cuda == _is_marked(tensor):
        return _mark(result) if is_cuda else result
    if result.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
        result = result.clone()
    return _mark(result) if is_cuda else result


def _numpy(func: Any, args: Any, kwargs: Any) -> Any:
    if _is_marked(args[0]) and not kwargs.get("force"):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    return func(*args, **kwargs)


def _in_fp32(func: Any, args: Any, kwargs: Any) -> Any:
    """A GPU adds 16-bit numbers in fp32. PyTorch's normalisations on the CPU add their gradients in 16 bits."""

    def wide(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value

    is_marked = any(_is_marked(it) for it in _tensors([*args, *kwargs.values()]))
    first = args[0] if args else kwargs["input"]
    if not is_marked or first.dtype not in _NARROW:
        result = func(*args, **kwargs)
    else:
        result = func(*map(wide, args), **{name: wide(value) for name, value in kwargs.items()}).to(first.dtype)
    return _mark(result) if is_marked else result


_NARROW = (torch.float16, torch.bfloat16)


def _special() -> dict[Any, Callable[..., Any]]:
    tensor = torch.Tensor
    return {
        tensor.device.__get__: _device,
        tensor.is_cuda.__get__: _is_cuda,
        tensor.is_cpu.__get__: _is_cpu,
        tensor.get_device: _get_device,
        torch.get_device: _get_device,
        tensor.cuda: _to_cuda,
        tensor.cpu: _to_cpu,
        tensor.to: _to,
        tensor.numpy: _numpy,
        **{
            getattr(owner, name): _in_fp32
            for owner in (torch, torch.nn.functional)
            for name in ("layer_norm", "group_norm", "rms_norm")
            if hasattr(owner, name)
        },
    }


_SPECIAL: dict[Any, Callable[..., Any]] = _special()


class _Generator(torch.Generator):
    """A generator for the virtual device, which is one of the CPU."""

    def __new__(cls, device: Any = None) -> _Generator:
        return super().__new__(cls, _CPU)


# ---- torch.cuda ----


class _Stream:
    """Every launch is complete when it returns, so streams and events have nothing to wait for."""

    cuda_stream = stream_id = device_index = device_type = 0
    device = _CUDA

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class _Event(_Stream):
    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def elapsed_time(self, other: Any) -> float:
        raise _unsupported("the virtual GPU does not measure time, so events have no elapsed time")


def _unsupported(reason: str) -> Exception:
    return _native.UnsupportedError(reason)


def _refuse(reason: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise _unsupported(reason)

    return refuse


def _functions(target: str, properties: tuple[str, str, int, int]) -> dict[str, Any]:
    """What replaces the functions and classes of ``torch.cuda``."""
    name, _, sms, shared = properties
    capability = divmod(int(target.removeprefix("sm_")), 10)
    described = SimpleNamespace(
        name=name,
        major=capability[0],
        minor=capability[1],
        total_memory=80 << 30,
        multi_processor_count=sms,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=shared,
        regs_per_multiprocessor=65536,
        is_integrated=False,
    )
    # Each name has a function of its own: PyTorch's compiler refuses one function with several names.
    nothing = ("init", "_lazy_init", "synchronize", "empty_cache", "set_device", "set_stream", "manual_seed")
    nothing += ("manual_seed_all", "seed", "seed_all", "reset_peak_memory_stats")
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *args, **kwargs: capability[0] >= 8,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: name,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: described,
        "get_arch_list": lambda: [target],
        "current_stream": lambda device=None: _Stream(),
        "default_stream": lambda device=None: _Stream(),
        "stream": lambda stream: contextlib.nullcontext(stream),
        "device": lambda device: contextlib.nullcontext(device),
        "device_of": lambda tensor: contextlib.nullcontext(tensor),
        "mem_get_info": lambda device=None: (80 << 30, 80 << 30),
        "memory_allocated": lambda device=None: 0,
        "max_memory_allocated": lambda device=None: 0,
        "Stream": _Stream,
        "Event": _Event,
        **{name: _refuse("CUDA graphs need a GPU") for name in ("CUDAGraph", "graph")},
        **{name: lambda *args, **kwargs: None for name in nothing},
    }


@contextlib.contextmanager
def virtual_cuda(target: str, properties: tuple[str, str, int, int]) -> Iterator[None]:
    """Makes the device available inside the block."""
    _enter(target, properties)
    try:
        yield
    finally:
        _leave()


def _enter(target: str, properties: tuple[str, str, int, int]) -> None:
    global _depth, _mode
    with _lock:
        _depth += 1
        if _depth > 1:
            return
        for name, value in _functions(target, properties).items():
            if hasattr(torch.cuda, name):
                _replaced.append((torch.cuda, name, getattr(torch.cuda, name)))
                setattr(torch.cuda, name, value)
        # A PyTorch for CUDA sets the stream of the driver here; its tests do so.
        if hasattr(torch._C, "_cuda_setStream"):
            _replaced.append((torch._C, "_cuda_setStream", torch._C._cuda_setStream))
            torch._C._cuda_setStream = lambda **kwargs: None
        _replaced.append((torch, "Generator", torch.Generator))
        torch.Generator = _Generator  # type: ignore[misc]
        _mode = _Mode()
        _mode.__enter__()


def _leave() -> None:
    global _depth, _mode
    with _lock:
        _depth -= 1
        if _depth > 0 or _mode is None:
            return
        _mode.__exit__(None, None, None)
        _mode = None
        for owner, name, value in reversed(_replaced):
            setattr(owner, name, value)
        _replaced.clear()


def is_active() -> bool:
    """Whether the device is available."""
    return _mode is not None


def memory_at(address: int) -> tuple[int, int, Any] | None:
    """The address and the size of the memory on the virtual device that contains an address, and what keeps it alive."""
    for storage, start, nbytes in list(_storages.values()):
        if start <= address < start + nbytes and not storage.expired():
            owner = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
            if owner is not None and (owner.data_ptr(), owner.nbytes()) == (start, nbytes):
                return start, nbytes, owner
    return None


def is_on_device(value: Any) -> bool:
    """Whether the value is a tensor on the virtual device, and so in the memory of the CPU."""
    return isinstance(value, torch.Tensor) and is_active() and _is_marked(value)
