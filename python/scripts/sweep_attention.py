"""Times attention on random shapes on a GPU beside cuDNN, as PyTorch calls it, and lists the shapes on which it is slower.

    python sweep_attention.py [--shapes 200] [--seed 1] [--seconds 300] [--least 0.95] [--json results.json]

Half of the shapes are prefill, a quarter decode, a quarter many short sequences; fp16 and bf16, head_dim 64, 96, 128
and 256, grouped heads, with and without a causal mask. The package selects the kernels as in any call
(`warpsmith.attention`). They are compiled first, by several processes. Each result is compared with cuDNN's, and both
are timed in turns by replays of CUDA graphs; a ratio is the median time of cuDNN over ours. The caches are warm. Ends
with exit code 1 if a result is wrong, a ratio is below `--least`, or a shape was not measured.
"""

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time

MOST_ELEMENTS = 1 << 29  # of K
MOST_FLOPS = 2e12
DTYPES = ("fp16", "bf16")


class Shape:
    def __init__(self, draw):
        kind = draw.choice(["prefill", "prefill", "decode", "short"])
        self.dtype, self.head_dim = draw.choice(DTYPES), draw.choice([64, 64, 128, 128, 128, 96, 256])
        while True:
            self.kv_heads = draw.choice([1, 2, 4, 8, 8, 16, 32])
            self.heads = self.kv_heads * draw.choice([1, 1, 2, 4, 4, 8])
            self.batch, self.seq_q, seq_k, self.causal = self.drawn(kind, draw)
            self.seq_k = seq_k or self.seq_q
            keys = self.batch * self.kv_heads * self.seq_k * self.head_dim
            if self.heads <= 128 and keys <= MOST_ELEMENTS and self.flops() <= MOST_FLOPS:
                break
        self.kind = kind

    @staticmethod
    def drawn(kind, draw):
        def between(least, most):
            number = math.exp(draw.uniform(math.log(least), math.log(most)))
            step = 64 if number > 256 and draw.random() < 0.5 else 1
            return max(least, round(number / step) * step)

        if kind == "decode":
            return between(1, 128), draw.choice([1, 1, 1, 2, 4]), between(64, 65536), False
        if kind == "short":
            return between(16, 512), between(8, 256), None, draw.random() < 0.5
        causal = draw.random() < 0.5
        seq = between(128, 16384)
        return between(1, 16), seq, None if causal or draw.random() < 0.7 else between(128, 16384), causal

    def flops(self):
        return 4.0 * self.batch * self.heads * self.seq_q * self.seq_k * self.head_dim * (0.5 if self.causal else 1.0)

    def __str__(self):
        name = f"b{self.batch}h{self.heads}"
        name += f"kv{self.kv_heads}" if self.kv_heads != self.heads else ""
        name += f"s{self.seq_q}" if self.seq_q == self.seq_k else f"sq{self.seq_q}sk{self.seq_k}"
        return f"{name}d{self.head_dim}{'-causal' if self.causal else ''}-{self.dtype}"

    def tensors(self, torch):
        dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[self.dtype]

        def drawn(heads, seq):
            return torch.randn(self.batch, heads, seq, self.head_dim, device="cuda", dtype=dtype)

        return drawn(self.heads, self.seq_q), drawn(self.kv_heads, self.seq_k), drawn(self.kv_heads, self.seq_k)


def shapes(count, seed):
    draw = random.Random(seed)
    return [Shape(draw) for _ in range(count)]


def compile_some(options):
    """Calls every `of`-th shape once, which compiles its kernel."""
    import torch
    import warpsmith

    number, of = (int(it) for it in options.compile.split("/"))
    for shape in shapes(options.shapes, options.seed)[number::of]:
        try:
            warpsmith.attention(*shape.tensors(torch), causal=shape.causal)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001: the measurement tells of it
            print(f"{shape}: {error}", file=sys.stderr)


def compile_all(options):
    start = time.monotonic()
    own = [sys.executable, __file__, "--shapes", str(options.shapes), "--seed", str(options.seed)]
    workers = [subprocess.Popen([*own, "--compile", f"{i}/{options.workers}"]) for i in range(options.workers)]
    for worker in workers:
        worker.wait()
    print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)


class Timer:
    """A graph that repeats a call for about a millisecond."""

    def __init__(self, torch, call):
        self.torch, self.call = torch, call  # the graph uses what the call keeps
        for _ in range(2):
            self.result = call()
        torch.cuda.synchronize()
        self.times, self.graph = 1, self.captured(call, 1)
        self.times = max(1, min(200, round(1000 / self.sample())))
        if self.times > 1:
            self.graph = self.captured(call, self.times)

    def captured(self, call, times):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(times):
                call()
        return graph

    def sample(self):
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.graph.replay()
        events[0].record()
        self.graph.replay()
        events[1].record()
        self.torch.cuda.synchronize()
        return events[0].elapsed_time(events[1]) * 1e3 / self.times


def measured(torch, shape, rounds):
    import warpsmith
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = shape.tensors(torch)

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            grouped = shape.heads != shape.kv_heads
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=shape.causal, enable_gqa=grouped)

    def ours():
        return warpsmith.attention(q, k, v, causal=shape.causal)

    timers = [Timer(torch, cudnn), Timer(torch, ours)]
    theirs, own = (timer.result.float() for timer in timers)
    error = ((own - theirs).norm() / theirs.norm()).item()
    samples = [[], []]
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            samples[which].append(timers[which].sample())
    theirs, own = (statistics.median(times) for times in samples)
    limit = 2e-3 if shape.dtype == "fp16" else 1.6e-2
    return {"cudnn_us": theirs, "us": own, "ratio": theirs / own, "error": error, "right": error <= 2 * limit}


def sweep(options):
    import torch

    end, rows = time.monotonic() + options.seconds, []
    for shape in shapes(options.shapes, options.seed):
        if time.monotonic() > end:
            break
        row = {"shape": str(shape), "kind": shape.kind}
        try:
            row |= measured(torch, shape, options.rounds)
        except Exception as error:  # noqa: BLE001: a shape that cannot run does not end the others
            row["failure"] = f"{type(error).__name__}: {str(error)[:200]}"
        rows.append(row)
        print(line(row, options.least), flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)
    return rows


def line(row, least):
    if "failure" in row:
        return f"{row['shape']:44s} {row['failure']}"
    mark = "" if row["right"] else f" WRONG {row['error']:.1e}"
    mark += " slower" if row["ratio"] < least else ""
    return f"{row['shape']:44s} {row['cudnn_us']:9.2f} {row['us']:9.2f} us {row['ratio']:5.2f}x{mark}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300.0, help="no new shape is begun after this time")
    parser.add_argument("--least", type=float, default=0.95, help="smallest ratio that passes")
    parser.add_argument("--workers", type=int, default=8, help="processes that compile; 0: nothing is compiled before")
    parser.add_argument("--json")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile:
        return compile_some(options)
    if options.workers:
        compile_all(options)
    rows = sweep(options)
    timed = [row for row in rows if "ratio" in row]
    bad = [row for row in timed if row["ratio"] < options.least or not row["right"]]
    if timed:
        ratios = sorted(row["ratio"] for row in timed)
        middle = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{len(timed)} of {options.shapes} shapes: geometric mean {middle:.2f}x, smallest {ratios[0]:.2f}x")
    print(f"{len(bad)} below {options.least} or wrong, {len(rows) - len(timed)} not measured")
    return 1 if bad or len(timed) < options.shapes else 0


if __name__ == "__main__":
    sys.exit(main())
