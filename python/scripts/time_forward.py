"""Times compiled settings of `hopper` on a GPU, beside FlashAttention-3 and cuDNN: for choosing picks.

    warpsmith build hopper --preset fp8-d256 --set BLOCK_N=64 --axis head_dim=256 --axis dtype=e4m3 --emit builds/small-steps
    ...
    python time_forward.py builds [--problem b4h8s4096d256-causal-e4m3 ...] [--rounds 5] [--json results.json]

Each setting has a folder of its own, whose name is that of the subject. A file `problems` there, if it exists, has the problems
of the setting, one per line; otherwise it is timed on every problem that it suits. `warpsmith build` needs no GPU, so the
builds can come from another machine. WARPSMITH_FA3 names a library of FlashAttention-3; without it, FA3 is left out.

Before its first sample the output of every subject is compared with a float32 reference of the first and the last head, on the
numbers that the kernel reads. The subjects of a problem are timed in turns, by replays of CUDA graphs. The first column of times
is the median, the second the smallest.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import re
import statistics
import struct
import sys
import time
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from time_backward import Map, cuda, must

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}
# Relative L2 errors that no right implementation exceeds on normal inputs.
LIMITS = {"fp16": 1e-3, "bf16": 8e-3, "e4m3": 0.04}


def up(a, b):
    return (a + b - 1) // b


class Problem:
    def __init__(self, name):
        found = re.fullmatch(r"b(\d+)h(\d+)(?:kv(\d+))?s(\d+)d(\d+)(-causal)?-(fp16|bf16|e4m3)", name)
        if not found:
            raise SystemExit(f"error: `{name}` is no problem such as b4h16s4096d128-causal-e4m3")
        batch, heads, kv_heads, seq, head_dim, causal, dtype = found.groups()
        self.name, self.batch, self.heads, self.seq, self.head_dim = name, int(batch), int(heads), int(seq), int(head_dim)
        self.kv_heads, self.causal, self.dtype_name = int(kv_heads or heads), causal is not None, dtype
        self.seq_q = self.seq_k = self.seq
        self.scales = None
        self.dtype, self.fp8, self.scale = DTYPES[dtype], dtype == "e4m3", self.head_dim**-0.5
        self.out_type = torch.float16 if self.fp8 else self.dtype
        generator = torch.Generator("cuda").manual_seed(7)

        def drawn(heads):
            shape = (self.batch, heads, self.seq, self.head_dim)
            return torch.randn(shape, device="cuda", generator=generator).to(self.dtype)

        self.q, self.k, self.v = drawn(self.heads), drawn(self.kv_heads), drawn(self.kv_heads)
        self.expected = {where: self.head(*where) for where in {(0, 0), (self.batch - 1, self.heads - 1)}}

    def head(self, batch, head):
        of_keys = head // (self.heads // self.kv_heads)
        q, k, v = self.q[batch, head].float(), self.k[batch, of_keys].float(), self.v[batch, of_keys].float()
        out = torch.empty_like(q)
        for first in range(0, self.seq, 2048):
            scores = q[first : first + 2048] @ k.T * self.scale
            if self.causal:
                rows = torch.arange(first, first + len(scores), device="cuda")
                scores.masked_fill_(torch.arange(self.seq, device="cuda") > rows[:, None], -torch.inf)
            out[first : first + 2048] = torch.softmax(scores, 1) @ v
        return out

    def error(self, output):
        """The largest relative L2 error of a head. The output has the layout by head."""
        errors = []
        for (batch, head), expected in self.expected.items():
            errors.append(((output[batch, head].float() - expected).norm() / expected.norm()).item())
        return max(errors)


def problems_of(folder, *otherwise):
    """The problems that a setting lists."""
    listed = folder / "problems"
    return listed.read_text().split() if listed.exists() else otherwise


class Setting:
    """A compiled candidate of `hopper` (`warpsmith build --emit`)."""

    def __init__(self, folder):
        (cubin,) = folder.glob("*.cubin")
        header = cubin.with_suffix(".cuh").read_text()
        self.name = folder.name
        self.dtype = re.search(r"dtype = Dtype::(\w+)", header).group(1)
        self.head_dim = int(re.search(r"int head_dim = (\d+)", header).group(1))
        value = {"true": 1, "false": 0}
        knobs = re.findall(r"constexpr \w+ ([A-Z_]+) = (?:\w+::)?(\w+);", header)
        self.knobs = {name: value.get(text, int(text) if text.isdigit() else text) for name, text in knobs}
        self.shared = int(re.search(r"constexpr unsigned total = (\d+)", header).group(1))
        module = ctypes.c_void_p()
        must(cuda.cuModuleLoadData(ctypes.byref(module), cubin.read_bytes()), f"load {cubin}")
        self.module = module

    def suits(self, problem):
        return (self.dtype, self.head_dim) == (problem.dtype_name, problem.head_dim)

    def function(self, name, shared):
        function = ctypes.c_void_p()
        must(cuda.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()), name)
        must(cuda.cuFuncSetAttribute(function, 8, shared), "shared memory")
        return function

    def launches(self, problem):
        """The function, grid, threads and shared memory of every launch: the manifest's."""
        p, knobs = problem, self.knobs
        launches = []
        if p.fp8 and knobs["TRANSPOSE"] == "before":
            grid = (up(p.seq_k, knobs["BLOCK_N"]) + 1, p.kv_heads * up(p.head_dim, 128), p.batch)
            launches.append((self.function("transpose_values", 0), *grid, 128, 0))
        split, groups = knobs["SPLIT_KV"], knobs["WARPGROUPS"]
        tiles = up(p.seq_q, 64 * groups) * p.heads * p.batch
        grid = (up(p.seq_q, 64), p.heads, p.batch) if split else (min(knobs["PERSISTENT"] or tiles, tiles), 1, 1)
        threads = groups * 128 + (32 if split and not p.fp8 else 128)
        launches.append((self.function("attention_hopper", self.shared), *grid, threads, self.shared))
        return launches

    def call(self, problem):
        p, knobs = problem, self.knobs
        out = torch.full(p.q.shape, torch.nan, dtype=p.out_type, device="cuda")
        tiles = up(p.seq_k, knobs["BLOCK_N"]) + 1
        size = p.batch * p.kv_heads * tiles * p.head_dim * knobs["BLOCK_N"] if p.fp8 else 1
        workspace = torch.empty(size, dtype=torch.uint8, device="cuda")
        parameters = ctypes.create_string_buffer(arguments(p, out, workspace))
        columns, swizzle = 128 if p.fp8 and p.head_dim > 64 else 64, 2 if p.fp8 and p.head_dim == 64 else 3
        rows = 64 if knobs["SPLIT_KV"] or knobs["QUERIES"] == "parts" else 64 * knobs["WARPGROUPS"]
        boxes = [(p.q, rows), (p.k, knobs["BLOCK_N"]), (p.v, knobs["BLOCK_N"])]
        maps = [tensor_map(tensor, (columns, rows), swizzle) for tensor, rows in boxes]
        pointers = [ctypes.cast(parameters, ctypes.c_void_p)] + [ctypes.c_void_p(each.address) for each in maps]
        listed = (ctypes.c_void_p * len(pointers))(*pointers)
        launches = self.launches(p)

        def run(keep=(parameters, maps, workspace)):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            for function, x, y, z, threads, shared in launches:
                must(cuda.cuLaunchKernel(function, x, y, z, threads, 1, 1, shared, stream, listed, None), self.name)
            return out

        return run


def tensor_map(tensor, box, swizzle):
    encoded = Map()
    batch, heads, seq, head_dim = tensor.shape
    extents = (ctypes.c_uint64 * 4)(head_dim, seq, heads, batch)
    strides = (ctypes.c_uint64 * 3)(*(tensor.element_size() * tensor.stride(axis) for axis in (2, 1, 0)))
    sizes, ones = (ctypes.c_uint32 * 4)(*box, 1, 1), (ctypes.c_uint32 * 4)(1, 1, 1, 1)
    dtype = {torch.float8_e4m3fn: 0, torch.float16: 6, torch.bfloat16: 9}[tensor.dtype]
    address = ctypes.c_void_p(tensor.data_ptr())
    result = cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(encoded.address), dtype, 4, address, extents, strides, sizes, ones, 0, swizzle, 3, 0
    )
    must(result, "encode a tensor map")
    return encoded


def arguments(problem, out, workspace):
    """`attention::Arguments` of kernels/attention/common/arguments.cuh."""
    p = problem
    group = p.heads // p.kv_heads
    factor = 0 if group == 1 else ((1 << 32) + group - 1) // group
    tensors = (p.q, p.k, p.v, out)
    scales = [0] * 3 if p.scales is None else [scale.data_ptr() for scale in p.scales]
    parts = [
        struct.pack("<Iiifii", factor, p.seq_q, p.seq_k, p.scale, int(p.causal), p.seq_k - p.seq_q if p.causal else 0),
        struct.pack("<4Q", *(tensor.data_ptr() for tensor in tensors)),
        *(struct.pack("<3I", *tensor.stride()[:3]) for tensor in tensors),
        struct.pack("<ii5Qii", p.batch, p.heads, 0, *scales, workspace.data_ptr(), p.kv_heads, 0),
        struct.pack("<3Q5if2Q", 0, 0, 0, 0, 0, -1, -1, 1, 0.0, 0, 0),
    ]
    packed = b"".join(parts)
    assert len(packed) == 224, len(packed)
    return packed


# ---- peers ----


def pytorch(problem, backend):
    if problem.fp8:
        raise ValueError("no FP8")
    p, options = problem, {"scale": problem.scale, "is_causal": problem.causal, "enable_gqa": problem.heads != problem.kv_heads}

    def run():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(p.q, p.k, p.v, **options)

    return run


def cudnn_fp8(problem):
    if not problem.fp8:
        raise ValueError("only FP8")
    from cudnn_fp8_errors import prepare  # needs cuDNN's frontend

    p = problem
    call, output = prepare([p.q, p.k, p.v], [1.0] * 3, p.scale, p.causal)

    def run():
        call()
        return output

    return run


def fa3(problem):
    library = os.environ.get("WARPSMITH_FA3")
    if not library:
        raise ValueError("WARPSMITH_FA3 is not set")
    ctypes.CDLL(library, mode=os.RTLD_LAZY)
    p = problem
    q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in (p.q, p.k, p.v))
    options = {"softmax_scale": p.scale, "is_causal": p.causal, "num_splits": 1}
    if p.fp8:
        ones = torch.ones(p.batch, p.kv_heads, device="cuda")
        options |= {"q_descale": ones, "k_descale": ones, "v_descale": ones}
    return lambda: torch.ops.flash_attn_3.fwd(q, k, v, **options)[0].transpose(1, 2)


PEERS = {
    "cudnn": lambda problem: pytorch(problem, SDPBackend.CUDNN_ATTENTION),
    "cudnn_fp8": cudnn_fp8,
    "fa3": fa3,
}


# ---- times ----


class Timer:
    """A graph that repeats a call for some milliseconds."""

    MILLISECONDS = 8

    def __init__(self, call, stream):
        # The graph reads the memory that the call keeps.
        self.call = call
        with torch.cuda.stream(stream):
            call()
            torch.cuda.synchronize()
            self.times, self.graph = 1, self.captured(call, 1, stream)
            self.times = max(1, min(500, round(self.MILLISECONDS * 1e3 / min(self.sample() for _ in range(2)))))
            self.graph = self.captured(call, self.times, stream)

    @staticmethod
    def captured(call, times, stream):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(times):
                call()
        return graph

    def sample(self):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        self.graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        return events[0].elapsed_time(events[1]) * 1e3 / self.times


def measure(name, settings, rounds, idle):
    torch.cuda.empty_cache()
    problem, stream = Problem(name), torch.cuda.Stream()
    subjects = {peer: lambda make=make: make(problem) for peer, make in PEERS.items()}
    subjects |= {each.name: lambda each=each: each.call(problem) for each in settings if each.suits(problem)}
    timers, rows = {}, {}
    for subject, make in subjects.items():
        row = rows.setdefault(subject, {"problem": name, "subject": subject, "peer": subject in PEERS})
        try:
            with torch.cuda.stream(stream):
                call = make()
                row["error"] = problem.error(call())
                torch.cuda.synchronize()
            # cuDNN's FP8 output is E4M3, without a scale here.
            if subject == "cudnn_fp8" or row["error"] <= LIMITS[problem.dtype_name]:
                timers[subject] = Timer(call, stream)
            else:
                row["failure"] = f"WRONG {row['error']:.2e}"
        except Exception as error:  # noqa: BLE001: a subject that cannot run does not end the others
            row["failure"] = f"{type(error).__name__}: {str(error)[:100]}"
            if "illegal" in row["failure"] or "launch failure" in row["failure"]:
                print(f"{name} {subject}: {row['failure']}", flush=True)
                raise
    samples = {subject: [] for subject in timers}
    for turn in range(rounds):
        order = list(timers) if turn % 2 == 0 else list(timers)[::-1]
        for subject in order:
            time.sleep(idle)
            samples[subject].append(timers[subject].sample())
    for subject, times in samples.items():
        rows[subject] |= {"us": statistics.median(times), "least_us": min(times)}
    best = min((row["us"] for row in rows.values() if row["peer"] and "us" in row), default=None)
    for row in sorted(rows.values(), key=lambda row: (not row["peer"], row.get("us", 1e9))):
        print(line(row, best), flush=True)
    return list(rows.values())


def line(row, best):
    start = f"{row['problem']:30s} {row['subject']:44s}"
    if "us" not in row:
        return f"{start} {row.get('failure')}"
    ratio = f"{best / row['us']:6.3f}x" if best else ""
    return f"{start} {row['us']:9.2f} {row['least_us']:9.2f} {ratio} {row['error']:.2e}"


def measure_alone(name, builds, rounds, idle, json_file):
    """In a process of its own, which no other problem's failure can reach."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")  # makes the context
    folders = [cubin.parent for cubin in sorted(builds.rglob("*.cubin"))]
    rows = measure(name, [Setting(folder) for folder in folders if name in problems_of(folder, name)], rounds, idle)
    if json_file:
        before = json.loads(json_file.read_text()) if json_file.exists() else []
        json_file.write_text(json.dumps(before + rows, indent=1))
    sys.exit(1 if any("WRONG" in row.get("failure", "") for row in rows) else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", type=Path, help="folder with a folder for each setting")
    parser.add_argument("--problem", action="append", help="default: all that the settings list")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=0.0, help="seconds before each sample, for a GPU that is not hot")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--limit", type=float, default=60, help="seconds for one problem")
    options = parser.parse_args()
    folders = [cubin.parent for cubin in sorted(options.builds.rglob("*.cubin"))]
    failed = False
    # CUDA is not used before the processes are forked.
    start = multiprocessing.get_context("fork").Process
    for name in options.problem or dict.fromkeys(each for folder in folders for each in problems_of(folder)):
        process = start(target=measure_alone, args=(name, options.builds, options.rounds, options.idle, options.json))
        process.start()
        process.join(options.limit)
        if process.exitcode is None:
            print(f"{name}: stopped after {options.limit} s", flush=True)
            process.kill()
            process.join()
        failed |= process.exitcode != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
