"""Times the backward pass of attention on a GPU: compiled kernels of the op attention_backward beside PyTorch's and FA3's.

    for axes in "64 d64" "128 d128" "256 d256"; do
        set -- $axes
        for preset in $2 $2-ordered; do
            warpsmith build hopper-backward --preset $preset --axis head_dim=$1 --axis dtype=bf16 --emit builds/$preset
        done
    done
    python time_backward.py builds [--problem b4h16s4096d128-causal-bf16 ...] [--rounds 5] [--json results.json]

`warpsmith build` needs no GPU, so the builds can come from another machine. WARPSMITH_FA3 names a library of FlashAttention-3
with its backward pass; without it, FA3 is left out. PyTorch's own backends are cuDNN and flash (FlashAttention-2).

All subjects of a problem are timed in turns in this process, by replays of CUDA graphs that repeat all launches of one call.
Before that, each result is compared with float64 gradients of the first and the last group of heads, and a kernel's second
result with its first: `bits` says in how many elements they differ.
"""

import argparse
import ctypes
import json
import os
import re
import statistics
import struct
import sys
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

TRAINING = [
    "b2h16s8192d128-bf16",
    "b2h16s8192d128-causal-bf16",
    "b4h16s4096d128-bf16",
    "b4h16s4096d128-causal-bf16",
    "b4h32s4096d64-bf16",
    "b4h32s4096d64-causal-bf16",
    "b16h16s1024d128-causal-bf16",
    "b1h8s512d64-bf16",
    "b4h8s4096d256-bf16",
    "b4h8s4096d256-causal-bf16",
    "b2h32kv8s4096d128-causal-bf16",
]
# Relative L2 errors that no right implementation exceeds on normal inputs.
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}

cuda = ctypes.CDLL("libcuda.so.1")


def must(result, what):
    if result != 0:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(result, ctypes.byref(name))
        raise RuntimeError(f"{what}: {name.value.decode() if name.value else result}")


class Problem:
    def __init__(self, name):
        pattern = r"b(\d+)h(\d+)(?:kv(\d+))?s(?:q(\d+)sk)?(\d+)d(\d+)(-causal)?-(fp16|bf16)"
        found = re.fullmatch(pattern, name)
        if not found:
            raise SystemExit(f"error: `{name}` is no problem such as b2h32kv8s4096d128-causal-bf16")
        batch, heads, kv_heads, seq_q, seq_k, head_dim, causal, dtype = found.groups()
        self.name, self.batch, self.heads = name, int(batch), int(heads)
        self.kv_heads, self.seq_k = int(kv_heads or heads), int(seq_k)
        self.seq_q, self.head_dim = int(seq_q or seq_k), int(head_dim)
        self.causal, self.dtype_name, self.dtype = causal is not None, dtype, DTYPES[dtype]
        self.group, self.scale = self.heads // self.kv_heads, self.head_dim**-0.5
        generator = torch.Generator("cuda").manual_seed(7)

        def drawn(heads, seq):
            shape = (self.batch, heads, seq, self.head_dim)
            return torch.randn(shape, device="cuda", generator=generator).to(self.dtype)

        self.q, self.d_o = drawn(self.heads, self.seq_q), drawn(self.heads, self.seq_q)
        self.k, self.v = drawn(self.kv_heads, self.seq_k), drawn(self.kv_heads, self.seq_k)
        self.o, self.lse = torch.empty_like(self.q), torch.empty(self.batch, self.heads, self.seq_q, device="cuda")
        for batch in range(self.batch):
            for head in range(self.heads):
                self.forward_of_head(batch, head)
        self.expected = {where: self.gradients_of_group(*where) for where in self.checked_groups()}

    def checked_groups(self):
        return {(0, 0), (self.batch - 1, self.kv_heads - 1)}

    def scores(self, batch, head, dtype):
        q, k = self.q[batch, head].to(dtype), self.k[batch, head // self.group].to(dtype)
        scores = q @ k.T * self.scale
        if self.causal:
            hidden = torch.ones(self.seq_q, self.seq_k, dtype=torch.bool, device="cuda")
            scores.masked_fill_(hidden.triu(1 + self.seq_k - self.seq_q), -torch.inf)
        return scores

    def forward_of_head(self, batch, head):
        scores = self.scores(batch, head, torch.float32)
        self.lse[batch, head] = scores.logsumexp(1)
        weights = (scores - self.lse[batch, head][:, None]).exp().nan_to_num(0.0)
        self.o[batch, head] = (weights @ self.v[batch, head // self.group].float()).to(self.dtype)

    def gradients_of_group(self, batch, kv_head):
        """In float64: dQ of the group's heads, then dK and dV."""
        k, v = self.k[batch, kv_head].double(), self.v[batch, kv_head].double()
        dq, dk, dv = [], torch.zeros_like(k), torch.zeros_like(v)
        for head in range(kv_head * self.group, (kv_head + 1) * self.group):
            scores = self.scores(batch, head, torch.float64)
            p = torch.softmax(scores, 1).nan_to_num_(0.0)
            d_o = self.d_o[batch, head].double()
            dv += p.T @ d_o
            dp = d_o @ v.T
            ds = p * (dp - (p * dp).sum(1, keepdim=True)) * self.scale
            dq.append(ds @ k)
            dk += ds.T @ self.q[batch, head].double()
        return torch.stack(dq), dk, dv

    def errors(self, gradients):
        """The largest relative L2 error of each gradient, and of a row of any."""
        worst, worst_row = [0.0] * 3, 0.0
        for (batch, kv_head), expected in self.expected.items():
            heads = slice(kv_head * self.group, (kv_head + 1) * self.group)
            got = gradients[0][batch, heads], gradients[1][batch, kv_head], gradients[2][batch, kv_head]
            for index, (one, wanted) in enumerate(zip(got, expected)):
                difference = one.double() - wanted
                worst[index] = max(worst[index], (difference.norm() / wanted.norm()).item())
                # The first rows of a causal mask may have no gradient, but have the rounding error of delta.
                norms = wanted.norm(dim=-1)
                rows = difference.norm(dim=-1) / norms.clamp_min(0.1 * norms.max())
                worst_row = max(worst_row, rows.max().item())
        return worst, worst_row

    def flops(self):
        pairs = self.seq_q * self.seq_k
        if self.causal:
            pairs = sum(min(max(i + 1 + self.seq_k - self.seq_q, 0), self.seq_k) for i in range(self.seq_q))
        return 10.0 * self.batch * self.heads * pairs * self.head_dim


class Kernel:
    """A compiled candidate of hopper-backward or mma-backward (`warpsmith build --emit`)."""

    def __init__(self, cubin):
        header = cubin.with_suffix(".cuh").read_text()
        self.name = cubin.stem
        self.family = re.search(r"attention_backward/(\S+)'s", header).group(1)
        self.dtype = re.search(r"dtype = Dtype::(\w+)", header).group(1)
        self.head_dim = int(re.search(r"int head_dim = (\d+)", header).group(1))
        value = {"true": 1, "false": 0}
        knobs = re.findall(r"constexpr (?:int|bool) ([A-Z_]+) = (\w+);", header)
        self.knobs = {name: value[text] if text in value else int(text) for name, text in knobs}
        self.shared = int(re.search(r"constexpr unsigned total = (\d+)", header).group(1))
        module = ctypes.c_void_p()
        must(cuda.cuModuleLoadData(ctypes.byref(module), cubin.read_bytes()), f"load {cubin}")
        self.module, self.functions = module, {}

    def suits(self, problem):
        return (self.dtype, self.head_dim) == (problem.dtype_name, problem.head_dim)

    def function(self, name, shared):
        if name not in self.functions:
            function = ctypes.c_void_p()
            must(cuda.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()), name)
            if shared > 48 * 1024:
                must(cuda.cuFuncSetAttribute(function, 8, shared), "shared memory")
            self.functions[name] = function
        return self.functions[name]

    def launches(self, problem):
        """The function, grid, threads and shared memory of every launch, and the floats of the workspace: the manifest's."""
        p, knobs = problem, self.knobs
        up = lambda a, b: (a + b - 1) // b  # noqa: E731
        if self.family == "hopper-backward":
            block_n, boxes = (64 if p.head_dim > 128 else 128), up(p.head_dim, 64)
            tiles, blocks = up(p.seq_q, knobs["BLOCK_M"]), up(p.seq_k, block_n) * p.kv_heads * p.batch
            floats = p.batch * p.heads * tiles * knobs["BLOCK_M"] * (2 + 64 * boxes + knobs["ORDERED"])
            return floats, [
                ("attention_backward_prepare", (tiles, p.heads, p.batch), 256, 0),
                ("attention_backward_hopper", (blocks, 1, 1), 384, self.shared),
                ("attention_backward_convert", (tiles, p.heads, p.batch), 256, 0),
            ]
        rows, threads = knobs["ROWS"], knobs["ROWS"] * 2 * knobs["COLUMN_SPLIT"]
        all_rows = p.batch * p.heads * p.seq_q
        return all_rows, [
            ("attention_backward_delta", (up(all_rows, 8), 1, 1), 256, 0),
            ("attention_backward_mma_keys", (up(p.seq_k, rows), p.kv_heads, p.batch), threads, self.shared),
            ("attention_backward_mma_queries", (up(p.seq_q, rows), p.heads, p.batch), threads, self.shared),
        ]

    def maps(self, problem):
        if self.family != "hopper-backward":
            return []
        keys = 64 if problem.head_dim > 128 else 128
        queries = self.knobs["BLOCK_M"]
        boxes = [(problem.q, queries), (problem.k, keys), (problem.v, keys), (problem.d_o, queries)]
        return [tensor_map(tensor, rows) for tensor, rows in boxes]

    def call(self, problem):
        """A function that makes all launches, and its outputs."""
        p = problem
        out = [torch.full_like(tensor, torch.nan) for tensor in (p.q, p.k, p.v)]
        floats, launches = self.launches(p)
        workspace = torch.full((floats,), torch.nan, device="cuda")
        arguments = ctypes.create_string_buffer(backward_arguments(p, workspace, out))
        maps = self.maps(p)
        pointers = [ctypes.cast(arguments, ctypes.c_void_p)] + [ctypes.c_void_p(m.address) for m in maps]
        parameters = (ctypes.c_void_p * len(pointers))(*pointers)
        made = [(self.function(name, shared), *grid, threads, shared) for name, grid, threads, shared in launches]

        def run(keep=(arguments, maps, workspace)):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            for function, x, y, z, threads, shared in made:
                result = cuda.cuLaunchKernel(function, x, y, z, threads, 1, 1, shared, stream, parameters, None)
                must(result, f"launch {self.name}")
            return out

        return run


class Map:
    """A CUtensorMap at an address that is a multiple of 64."""

    def __init__(self):
        self.memory = ctypes.create_string_buffer(128 + 64)
        self.address = (ctypes.addressof(self.memory) + 63) // 64 * 64


def tensor_map(tensor, rows):
    encoded = Map()
    batch, heads, seq, head_dim = tensor.shape
    extents = (ctypes.c_uint64 * 4)(head_dim, seq, heads, batch)
    strides = (ctypes.c_uint64 * 3)(*(2 * tensor.stride(axis) for axis in (2, 1, 0)))
    box, ones = (ctypes.c_uint32 * 4)(64, rows, 1, 1), (ctypes.c_uint32 * 4)(1, 1, 1, 1)
    dtype = 6 if tensor.dtype == torch.float16 else 9
    result = cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(encoded.address), dtype, 4, ctypes.c_void_p(tensor.data_ptr()), extents, strides, box, ones,
        0, 3, 3, 0,
    )  # fmt: skip
    must(result, "encode a tensor map")
    return encoded


def backward_arguments(problem, workspace, out):
    """`attention::BackwardArguments` of kernels/attention/common/backward.cuh."""
    p = problem

    def strides(tensor):
        return struct.pack("<3I", tensor.stride(0), tensor.stride(1), tensor.stride(2))

    def pointers(*tensors):
        return struct.pack(f"<{len(tensors)}Q", *(0 if tensor is None else tensor.data_ptr() for tensor in tensors))

    factor = 0 if p.group == 1 else ((1 << 32) + p.group - 1) // p.group
    diagonal = p.seq_k - p.seq_q if p.causal else 0
    parts = [
        struct.pack("<Iiifii", factor, p.seq_q, p.seq_k, p.scale, int(p.causal), diagonal),
        pointers(p.q, p.k, p.v, p.o),
        *(strides(tensor) for tensor in (p.q, p.k, p.v, p.o)),
        struct.pack("<ii", p.batch, p.heads),
        pointers(p.lse, None, None, None, workspace),
        struct.pack("<ii", p.kv_heads, 0),
        pointers(None, None, None),
        struct.pack("<iiiiif", 0, 0, -1, -1, 1, 0.0),
        pointers(None, None),
        pointers(p.d_o, *out),
        *(strides(tensor) for tensor in (p.d_o, *out)),
    ]
    packed = b"".join(parts)
    assert len(packed) == 304, len(packed)
    return packed


def flash(problem):
    p, aten = problem, torch.ops.aten
    k, v = p.k, p.v
    given = (p.q, k, v, 0.0, p.causal, False)
    o, lse, *starts, seed, offset, _ = aten._scaled_dot_product_flash_attention(*given, scale=p.scale)
    saved = (p.q, k, v, o, lse, *starts, 0.0, p.causal, seed, offset)
    return lambda: aten._scaled_dot_product_flash_attention_backward(p.d_o, *saved, scale=p.scale)


def cudnn(problem):
    p, aten = problem, torch.ops.aten
    given = (p.q, p.k, p.v, None, True, 0.0, p.causal, False)
    o, lse, *starts, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(*given, scale=p.scale)
    saved = (p.q, p.k, p.v, o, lse, seed, offset, None, *starts, 0.0, p.causal)
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(p.d_o, *saved, scale=p.scale)


def pytorch(problem, backend):
    """By autograd, in case the operators have other signatures in this version of PyTorch."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (problem.q, problem.k, problem.v)]
    options = {"scale": problem.scale, "enable_gqa": problem.group > 1}
    if problem.causal:
        if problem.seq_q != problem.seq_k:
            raise ValueError("PyTorch aligns the mask to the first key")
        options["is_causal"] = True
    with sdpa_kernel(backend):
        o = torch.nn.functional.scaled_dot_product_attention(*leaves, **options)
    return lambda: torch.autograd.grad(o, leaves, problem.d_o, retain_graph=True)


def fa3(problem, deterministic=False):
    library = os.environ.get("WARPSMITH_FA3")
    if not library:
        raise ValueError("WARPSMITH_FA3 is not set")
    ctypes.CDLL(library, mode=os.RTLD_LAZY)
    p = problem
    q, k, v, d_o = (tensor.transpose(1, 2).contiguous() for tensor in (p.q, p.k, p.v, p.d_o))
    options = {"softmax_scale": p.scale, "is_causal": p.causal}
    o, lse = torch.ops.flash_attn_3.fwd(q, k, v, num_splits=1, **options)[:2]
    out = [torch.empty_like(tensor) for tensor in (q, k, v)]

    def run():
        torch.ops.flash_attn_3.bwd(d_o, q, k, v, o, lse, *out, deterministic=deterministic, **options)
        return [tensor.transpose(1, 2) for tensor in out]

    return run


class Timer:
    """A graph that repeats a call for about 20 ms. It keeps the call, and so its buffers."""

    def __init__(self, call, stream):
        self.call = call
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
            torch.cuda.synchronize()
            self.times, self.graph = 1, self.captured(call, 1, stream)
            self.times = max(1, min(500, round(20e3 / min(self.sample() for _ in range(3)))))
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
        self.graph.replay()
        events[0].record()
        self.graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        return events[0].elapsed_time(events[1]) * 1e3 / self.times


def subjects_of(problem, kernels):
    peers = {
        "cudnn": lambda: cudnn(problem),
        "cudnn-autograd": lambda: pytorch(problem, SDPBackend.CUDNN_ATTENTION),
        "flash": lambda: flash(problem),
        "flash-autograd": lambda: pytorch(problem, SDPBackend.FLASH_ATTENTION),
        "fa3": lambda: fa3(problem),
        "fa3-deterministic": lambda: fa3(problem, True),
    }
    ours = {kernel.name: lambda kernel=kernel: kernel.call(problem) for kernel in kernels if kernel.suits(problem)}
    return peers, ours


def measure(name, kernels, options):
    torch.cuda.empty_cache()
    problem, stream = Problem(name), torch.cuda.Stream()
    peers, ours = subjects_of(problem, kernels)
    if options.peer:
        peers = {name: make for name, make in peers.items() if name in options.peer}
    timers, rows = {}, {}
    for subject, make in {**peers, **ours}.items():
        row = rows.setdefault(subject, {"problem": name, "subject": subject, "peer": subject in peers})
        try:
            with torch.cuda.stream(stream):
                call = make()
                first = [tensor.clone() for tensor in call()[:3]]
                second = call()[:3]
                torch.cuda.synchronize()
            row["errors"], row["worst_row"] = problem.errors(first)
            row["bits"] = sum((a != b).sum().item() for a, b in zip(first, second))
            limit = LIMITS[problem.dtype]
            row["right"] = all(error <= limit for error in row["errors"]) and row["worst_row"] <= 3 * limit
            if row["right"] or options.even_wrong:
                timers[subject] = Timer(call, stream)
        except Exception as error:  # noqa: BLE001: a subject that cannot run does not end the others
            row["failure"] = f"{type(error).__name__}: {str(error)[:200]}"
            if "CUDA" in row["failure"] and "memory" not in row["failure"]:
                print(f"{name} {subject}: {row['failure']}")
                raise
    samples = {subject: [] for subject in timers}
    for turn in range(options.rounds):
        order = list(timers) if turn % 2 == 0 else list(timers)[::-1]
        for subject in order:
            samples[subject].append(timers[subject].sample())
    for subject, times in samples.items():
        rows[subject]["us"] = statistics.median(times)
        rows[subject]["tflops"] = problem.flops() / rows[subject]["us"] / 1e6
    best = min((row["us"] for row in rows.values() if row["peer"] and "us" in row), default=None)
    for row in rows.values():
        print(line(row, best), flush=True)
    return list(rows.values())


def line(row, best):
    start = f"{row['problem']:32s} {row['subject']:48s}"
    if "failure" in row:
        return f"{start} {row['failure']}"
    errors = " ".join(f"{error:.1e}" for error in row["errors"]) + f" row {row['worst_row']:.1e} bits {row['bits']}"
    verdict = "" if row["right"] else " WRONG"
    if "us" not in row:
        return f"{start}{verdict} {errors}"
    ratio = f"{best / row['us']:5.2f}x" if best else ""
    return f"{start} {row['us']:9.2f} us {row['tflops']:6.1f} TF {ratio}{verdict} {errors}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", type=Path, help="folder with the files of `warpsmith build --emit`")
    parser.add_argument("--problem", action="append", help="default: the rows of the suite `training`, and more")
    parser.add_argument("--peer", action="append", help="default: all; `none` for none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--even-wrong", action="store_true", help="also time kernels whose results are wrong, for experiments")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")  # makes the context
    kernels = [Kernel(path) for path in sorted(options.builds.rglob("*.cubin"))]
    rows = []
    for name in options.problem or TRAINING:
        rows += measure(name, kernels, options)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1))
    wrong = [row for row in rows if not row["peer"] and not row.get("right")]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
