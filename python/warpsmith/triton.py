"""Triton kernels on the virtual GPU, without a GPU and without a change of the kernel.

::

    import warpsmith.triton

    with warpsmith.triton.virtual():
        add[(4,)](x, y, out, n, BLOCK=256)

The arrays are tensors of PyTorch on the CPU, numpy arrays, or any object with ``data_ptr()``, ``dtype`` and
``shape``. They have the results after the launch. Findings point to the lines of the Python file. Triton compiles the
kernel to PTX as it does for a real GPU; nothing is interpreted at the level of Python.
"""

from __future__ import annotations

import functools
import math
import os
import re
import struct
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from . import _native
from ._memory import Memory, is_array, memory_of, native, place, plain_label, plain_number, scalar_bytes
from ._report import report_from
from ._sanitize import BUDGET, launch_options
from ._session import Session as _Session
from ._session import usual_device

try:
    import triton as _triton
    import triton.testing as _testing
    from triton._C import libtriton as _libtriton
    from triton.runtime.autotuner import Autotuner as _Autotuner
    from triton.runtime.jit import JITFunction as _JITFunction
except ImportError as error:  # pragma: no cover
    raise ImportError("warpsmith.triton needs the package `triton`: pip install triton") from error


class Session(_Session):
    """The Triton launches inside one :func:`virtual` block."""

    def __init__(
        self, target: str, device: str, options: dict[str, Any], raise_on_error: bool, known: Any, autotune: str
    ) -> None:
        super().__init__(target, device, options, raise_on_error, known)
        self._autotune = autotune
        #: Launches of a trial write no results; only their modelled time counts.
        self._trial_times: list[float] | None = None


@contextmanager
def virtual(
    target: str = "sm_80",
    *,
    device: str | None = None,
    raise_on_error: bool = True,
    autotune: str = "first",
    seed: int = 0,
    checked: bool = True,
    counters: bool = False,
    budget: int = BUDGET,
    time_limit: float | None = None,
    threads: int = 0,
    suppressions: Any = None,
) -> Iterator[Session]:
    """Runs all Triton kernels that are launched inside the block on the virtual GPU.

    ``target`` is the architecture that Triton compiles for: ``sm_80``, ``sm_86``, ``sm_89`` or ``sm_90``. ``device``
    names the virtual GPU if it is not the usual one of the target. A launch with an error raises
    :class:`warpsmith.SanitizeError`; with ``raise_on_error=False`` the reports are only collected in
    ``session.reports``. ``autotune`` is ``first``, which takes the first configuration of an autotuned kernel, or
    ``modelled``, which runs all of them and takes the one with the shortest modelled time. The other options are
    those of :func:`warpsmith.sanitize`. A rule of ``suppressions`` that matches no finding in the block is a warning at
    its end; ``session.suppressions`` says what every rule did.

    Triton has one active driver for the whole process: while the block is active, launches of all threads go to the
    virtual GPU. If PyTorch is imported, it has a virtual CUDA device: ``torch.cuda.is_available()`` is true, and
    ``device="cuda"`` gives tensors in the memory of the CPU. Time is not measured: ``triton.testing.do_bench`` raises an
    error, and benchmarks of ``triton.testing.perf_report`` are left out with a warning (``session.skipped``).
    """
    if autotune not in ("first", "modelled"):
        raise ValueError(f"autotune: {autotune!r} is neither 'first' nor 'modelled'")
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise RuntimeError("TRITON_INTERPRET=1 makes Triton interpret kernels; unset it to run them on the virtual GPU")
    device = device or usual_device(target)
    options = launch_options(seed, checked, counters, budget, time_limit, threads)
    session = Session(target, device, options, raise_on_error, suppressions, autotune)
    # Unknown devices are refused here, not at the first launch.
    properties = _native.device_properties(device)
    driver = _Driver(session, properties)
    with ExitStack() as stack:
        if "torch" in sys.modules:
            from ._virtual_cuda import virtual_cuda

            stack.enter_context(virtual_cuda(target, properties))
        _enter(driver)
        stack.callback(_leave, driver)
        stack.enter_context(session.telling())
        yield session


# ---- The driver ----


class _Driver:
    """What Triton asks a driver for."""

    def __init__(self, session: Session, properties: tuple[str, str, int, int]) -> None:
        name, _, sms, shared = properties
        self.session = session
        self.launcher_cls = _Launcher
        # The key of Triton's caches of compiled kernels. It differs from the keys of real GPUs.
        self.key = f"warpsmith:{session.target}:{name}"
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {
                "max_shared_mem": shared,
                "max_num_regs": 65536,
                "multiprocessor_count": sms,
                "warpSize": 32,
                "sm_clock_rate": 1_500_000,
                "mem_clock_rate": 1_500_000,
                "mem_bus_width": 4096,
            },
            # A kernel without a module is not unloaded; the driver could be another one then.
            load_binary=lambda name, binary, shared_bytes, device: (None, None, _registers(name, binary), 0, 1024),
            unload_module=lambda module: None,
        )

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", int(self.session.target.removeprefix("sm_")), 32)

    def get_current_device(self) -> Any:
        return self.key

    def set_current_device(self, device: Any) -> None:
        pass

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return divmod(int(self.session.target.removeprefix("sm_")), 10)

    def get_active_torch_device(self) -> Any:
        import torch

        virtual = sys.modules.get(f"{__package__}._virtual_cuda")
        return torch.device("cuda", 0) if virtual is not None and virtual.is_active() else torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Any:
        return _no_time

    def get_empty_cache_for_benchmark(self) -> Any:
        _no_time()

    def clear_cache(self, cache: Any) -> None:
        pass

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind

    def assemble_tensormap_to_arg(self, maps: Any, args: Any) -> Any:
        return args

    @staticmethod
    def is_active() -> bool:
        return True


def _no_time(*args: Any, **kwargs: Any) -> Any:
    raise _native.UnsupportedError(
        "the virtual GPU does not measure time\nhint: `counters=True` of warpsmith.triton.virtual gives modelled times"
    )


def _registers(name: str, binary: Any) -> int:
    """The registers per thread of a kernel in a cubin: the highest byte of the `info` of its code's section."""
    if not isinstance(binary, bytes) or binary[:4] != b"\x7fELF":
        return 32
    (table,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, names = struct.unpack_from("<HHH", binary, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", binary, table + index * size) for index in range(count)]
    start = sections[names][4]
    for section in sections:
        label = binary[start + section[0] : binary.index(b"\0", start + section[0])]
        if label == b".text." + name.encode():
            return max(section[7] >> 24, 1)
    return 32


class _Launcher:
    """Launches one compiled kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.src = src
        self.metadata = metadata
        function = getattr(getattr(src, "fn", None), "fn", None)
        file = function.__code__.co_filename if function is not None else ""
        self.file = os.path.abspath(file) if os.path.exists(file) else ""
        self.ptx = _in_file(_ptx(src, metadata), self.file)

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: Any,
        function: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *args: Any,
    ) -> None:
        session = _session()
        blocks = grid_x * grid_y * grid_z
        # As on a GPU: a launch without blocks does nothing.
        if blocks <= 0:
            return
        if enter_hook is not None:
            enter_hook(launch_metadata)
        code = self._load(session)
        given = _Parameters(self.src.signature, args, self.metadata)
        rows = given.rows + self._workspaces(len(code.params) - len(given.rows), blocks)
        buffers = place([*rows, *given.mapped])
        ctas = getattr(self.metadata, "num_ctas", 1)
        options = {
            "grid": [grid_x * ctas, grid_y, grid_z],
            "block": [32 * self.metadata.num_warps, 1, 1],
            "cluster": [ctas, 1, 1],
            "shared": self.metadata.shared,
            **session.options,
        }
        if session._trial_times is not None:
            options["counters"] = True
        result = _native.launch(code, buffers.arguments, options)
        if session._trial_times is not None:
            session._trial_times.append(result["modelled_us"] if result["clean"] else float("inf"))
            return
        session.finish(report_from(result, [], self._is_own), buffers, result["buffers"])
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _load(self, session: Session) -> Any:
        folders = [os.path.dirname(self.file)] if self.file else []
        return _loaded(self.ptx, self.metadata.name, session.device, (*folders, os.path.dirname(_triton.__file__)))

    def _is_own(self, file: str) -> bool:
        """Whether a file is not a part of Triton's own library."""
        return not file.startswith(os.path.dirname(_triton.__file__) + os.sep)

    def _workspaces(self, count: int, blocks: int) -> list[dict[str, Any]]:
        """The parameters after the user's: memory for the whole grid, and memory for a profiler."""
        sizes = [getattr(self.metadata, f"{name}_scratch_size", 0) for name in ("global", "profile")]
        rows = []
        for name, size in zip(("global_scratch", "profile_scratch"), sizes[: max(count, 0)]):
            if size:
                nbytes = size * blocks * getattr(self.metadata, "num_ctas", 1)
                rows.append(native(name, "scratch", dtype="u8", dims=[nbytes]))
            else:
                rows.append(native(name, "null"))
        return rows


@functools.lru_cache(maxsize=256)
def _loaded(ptx: str, kernel: str, device: str, folders: tuple[str, ...]) -> _native.Code:
    return _native.load(ptx, f"{kernel}.ptx", is_ptx=True, kernel=kernel, device=device, include=folders)


def _ptx(src: Any, metadata: Any) -> str:
    """The PTX of a compiled kernel, from Triton's cache."""
    from triton.runtime.cache import get_cache_manager

    group = get_cache_manager(metadata.hash).get_group(f"{src.name[:150]}.json") or {}
    path = next((path for name, path in group.items() if name.endswith(".ptx")), None)
    if path is None:
        raise _native.UnsupportedError(
            f"Triton's cache has no PTX of `{metadata.name}`\nhint: unset TRITON_STORE_BINARY_ONLY and delete the cache"
        )
    with open(path, encoding="utf-8") as file:
        return file.read()


def _in_file(ptx: str, file: str) -> str:
    """PTX whose kernel is in ``file``. Triton's cache may have the same kernel from another file, with its name."""
    # The first place after the entry is the kernel's own.
    place = re.search(r"\.entry.*?^\s*\.loc\s+(\d+)\s", ptx, flags=re.S | re.M)
    if place is None or not file:
        return ptx
    return re.sub(rf'^(\s*\.file\s+{place[1]}\s+)"[^"]*"', lambda match: f'{match[1]}"{file}"', ptx, flags=re.M)


def _session() -> Session:
    driver = _triton.runtime.driver._active
    if not isinstance(driver, _Driver):
        raise RuntimeError("this kernel was compiled for the virtual GPU; launch it inside warpsmith.triton.virtual()")
    return driver.session


# ---- Arguments ----


class _Parameters:
    """The parameters of a launch, in the order of Triton's calling convention."""

    def __init__(self, signature: dict[str, Any], args: Sequence[Any], metadata: Any) -> None:
        self.rows: list[dict[str, Any] | Memory] = []
        #: The arrays of tensor maps, which are no parameters themselves.
        self.mapped: list[Memory] = []
        self._maps = iter(getattr(metadata, "tensordesc_meta", None) or [])
        for (name, kind), value in zip(signature.items(), args):
            self._append(f"argument `{name}`", kind, value)

    def _append(self, label: str, kind: Any, value: Any) -> None:
        if isinstance(kind, tuple):
            for index, (inner, part) in enumerate(zip(kind, value)):
                self._append(f"{label}[{index}]", inner, part)
        elif kind == "constexpr":
            pass
        elif kind.startswith("tensordesc"):
            self._append_descriptor(label, value)
        elif kind.startswith("*"):
            if value is None:
                self.rows.append(native(label, "null"))
            elif is_array(value):
                self.rows.append(_memory(value, label))
            else:
                raise TypeError(f"{label}: {value!r} is not an array")
        else:
            self._append_numbers(label, [(kind, value)])

    def _append_numbers(self, label: str, numbers: Sequence[tuple[str, Any]]) -> None:
        self.rows.extend(native(label, "bytes", data=scalar_bytes(label, kind, it)) for kind, it in numbers)

    def _append_descriptor(self, label: str, value: Any) -> None:
        """A descriptor that the host makes: a pointer with its shape, or a tensor map for targets that have them."""
        shape, strides = list(value.shape), list(value.strides)
        memory = _memory(value.base, label)
        tensor_map = next(self._maps, None)
        if tensor_map is None:
            self.rows.append(memory)
            self._append_numbers(label, [("i64", it) for it in shape + strides])
            flags = [value.padding == "nan", getattr(value, "round_f32_to_tf32", False)]
            self._append_numbers(label, [("i1", it) for it in flags])
        else:
            self._append_map(label, value, memory, tensor_map)
        self._append_numbers(label, [("i32", it) for it in shape] + [("i64", it) for it in strides])

    def _append_map(self, label: str, value: Any, memory: Memory, tensor_map: dict[str, Any]) -> None:
        # A descriptor may see the array in another shape, such as rows of all heads.
        dims = [int(extent) for extent in value.shape]
        packed = [math.prod(dims[dim + 1 :]) for dim in range(len(dims))]
        is_whole = math.prod(dims) == math.prod(memory.dims) and memory.is_contiguous
        is_plain = is_whole and list(value.strides) == packed
        memory = replace(memory, dims=tuple(dims)) if is_plain else memory
        is_other = tensor_map.get("fp4_padded") or tensor_map.get("is_im2col") or value.padding == "nan"
        if not is_plain or is_other:
            raise _native.UnsupportedError(
                f"{label}: this kind of descriptor is not supported for this target; it must describe a whole "
                'contiguous array\nhint: use target="sm_80", or make the descriptor in the kernel'
            )
        same = [it for it in self.mapped if (it.address, it.nbytes) == (memory.address, memory.nbytes)]
        if not same:
            self.mapped.append(memory)
        name = plain_label((same or [memory])[0].label)
        box = list(tensor_map["block_size"])
        self.rows.append(native(label, "tensor", text=name, dims=box, **{"from": tensor_map["swizzle"]}))


def _memory(value: Any, label: str) -> Memory:
    return memory_of(value.array if isinstance(value, _Array) else value, label)


# ---- Changes of Triton while a block is active ----

_LOCK = threading.RLock()
#: The drivers of all active blocks; the last one is Triton's active driver.
_drivers: list[_Driver] = []
#: Triton's active driver outside all blocks; ``None`` if it has not looked for one yet.
_original: Any = None
_run = _JITFunction.run
_autotune = _Autotuner.run
_benchmark = _testing.Mark.run
#: Triton's bindings of cuBLAS, which need a GPU.
_cublas = getattr(_libtriton.nvidia, "cublas", None) if hasattr(_libtriton, "nvidia") else None


class _Blas:
    """What Triton's bindings of cuBLAS compute, on the CPU: products with the second matrix transposed."""

    def __init__(self, workspace: Any) -> None:
        pass

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        c.copy_((a.float() @ b.float().T).to(c.dtype))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        d.copy_((alpha * (a.float() @ b.float().T) + beta * c.float()).to(d.dtype))


class _Array:
    """An array that has no ``data_ptr``, such as one of numpy, as Triton expects arrays."""

    def __init__(self, array: Any, memory: Memory) -> None:
        self.array = array
        self.dtype = str(getattr(array, "dtype", _NAMES.get(memory.dtype, memory.dtype)))
        self._pointer = memory.pointer

    def data_ptr(self) -> int:
        return self._pointer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)


#: The names of types that arrays without ``dtype`` get.
_NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
_NAMES |= {
    f"{short}{bits}": f"{long}{bits}" for short, long in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)
}


def _wrapped(label: str, value: Any) -> Any:
    """A value as Triton accepts it."""
    if hasattr(value, "data_ptr"):
        return value
    if is_array(value):
        return _Array(value, memory_of(value, f"argument `{label}`"))
    number = plain_number(value)
    return value if number is None else number


def _virtual_run(self: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(_triton.runtime.driver._active, _Driver):
        labels = [*self.arg_names, *(str(index) for index in range(len(args)))]
        args = tuple(_wrapped(label, value) for label, value in zip(labels, args))
        kwargs = {name: _wrapped(name, value) for name, value in kwargs.items()}
    return _run(self, *args, **kwargs)


def _virtual_autotune(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs an autotuned kernel with one configuration. No time is measured, and no choice is kept for real GPUs."""
    driver = _triton.runtime.driver._active
    if not isinstance(driver, _Driver) or len(self.configs) <= 1:
        return _autotune(self, *args, **kwargs)
    from triton.runtime.errors import OutOfResources

    all_configs = self.configs
    self.nargs = dict(zip(self.arg_names, args))
    candidates = list(self.prune_configs(kwargs))

    def launch(config: Any) -> Any:
        self.configs = [config]
        try:
            return _autotune(self, *args, **kwargs)
        finally:
            self.configs = all_configs

    if driver.session._autotune == "modelled" and len(candidates) > 1:
        times = []
        for config in candidates:
            driver.session._trial_times = trial = []
            try:
                launch(config)
            except OutOfResources:
                trial.append(float("inf"))
            finally:
                driver.session._trial_times = None
            times.append(sum(trial))
        candidates = [candidates[times.index(min(times))]]
    for config in candidates[:-1]:
        try:
            return launch(config)
        except OutOfResources:
            continue
    return launch(candidates[-1])


def _skipped_benchmark(self: Any, *args: Any, **kwargs: Any) -> Any:
    driver = _triton.runtime.driver._active
    if not isinstance(driver, _Driver):
        return _benchmark(self, *args, **kwargs)
    benchmarks = self.benchmarks if isinstance(self.benchmarks, (list, tuple)) else [self.benchmarks]
    for benchmark in benchmarks:
        text = f"the benchmark {benchmark.plot_name} was left out: the virtual GPU does not measure time"
        driver.session.skipped.append(text)
        warnings.warn(text, stacklevel=2)
    return [] if kwargs.get("return_df") else None


def _enter(driver: _Driver) -> None:
    global _original
    config = _triton.runtime.driver
    with _LOCK:
        if not _drivers:
            _original = config._active
            _JITFunction.run = _virtual_run
            _Autotuner.run = _virtual_autotune
            _testing.Mark.run = _skipped_benchmark
            if _cublas is not None:
                _libtriton.nvidia.cublas = SimpleNamespace(CublasLt=_Blas)
        _drivers.append(driver)
        config.set_active(driver)


def _leave(driver: _Driver) -> None:
    config = _triton.runtime.driver
    with _LOCK:
        # Blocks of several threads may end in any order.
        _drivers.remove(driver)
        if _drivers:
            config.set_active(_drivers[-1])
        else:
            # Not `reset_active`: it would look for a real GPU.
            config._active = _original
            _JITFunction.run = _run
            _Autotuner.run = _autotune
            _testing.Mark.run = _benchmark
            if _cublas is not None:
                _libtriton.nvidia.cublas = _cublas
