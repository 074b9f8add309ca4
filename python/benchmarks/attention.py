"""Times ``warpsmith.attention`` and PyTorch's SDPA, called from Python on a GPU.

For each problem: the time of a call in a row of calls (eager), the time of a call that is waited for (latency), and
the time of the kernel alone (many calls in one CUDA graph). The calls take turns in rounds; each figure is the median
over the rounds. The overhead is eager minus kernel.

    python benchmarks/attention.py [ROUNDS]
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import warpsmith

#: Name, batch, heads, length, head_dim, causal.
PROBLEMS = [
    ("mission", 1, 8, 512, 64, False),
    ("small", 2, 8, 512, 64, False),
    ("small causal", 1, 8, 512, 64, True),
    ("v3_medium", 4, 16, 512, 64, False),
    ("long", 2, 8, 2048, 64, False),
    ("d128", 4, 16, 4096, 128, False),
]


def eager(call, calls=300):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


def issue(call, calls=100):
    """The time on the CPU: the GPU may still be busy."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    spent = (time.perf_counter() - start) / calls * 1e6
    torch.cuda.synchronize()
    return spent


def latency(call, calls=100):
    times = []
    for _ in range(calls):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def kernel_timer(call, calls=20):
    graph = torch.cuda.CUDAGraph()
    call()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()

    def measure(replays=20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3 / (replays * calls)

    return measure


def best_backend(q, k, v, is_causal):
    """The fastest of PyTorch's fused backends for this problem, as SDPA would be called with it."""
    times = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend):
            call = lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)  # noqa: E731
            times[backend] = kernel_timer(call)()
    return min(times, key=times.get)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, warpsmith {warpsmith.__version__}; us")
    print(f"{'problem':14} {'call':22} {'eager':>8} {'CPU':>8} {'latency':>8} {'kernel':>8} {'overhead':>8}")
    for name, batch, heads, length, head_dim, is_causal in PROBLEMS:
        q, k, v = (torch.randn(batch, heads, length, head_dim, device="cuda", dtype=torch.float16) for _ in range(3))
        calls = {
            "warpsmith.attention": lambda: warpsmith.attention(q, k, v, is_causal),
            "SDPA": lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal),
        }
        measures = {}
        for label, call in calls.items():
            for _ in range(20):
                call()
            measures[label] = (call, kernel_timer(call), {"eager": [], "issue": [], "latency": [], "kernel": []})
        for _ in range(rounds):
            for call, timer, rows in measures.values():
                rows["eager"].append(eager(call))
                rows["issue"].append(issue(call))
                rows["latency"].append(latency(call))
                rows["kernel"].append(timer())
        middle = {
            label: {row: statistics.median(times) for row, times in rows.items()}
            for label, (_, _, rows) in measures.items()
        }
        for label, it in middle.items():
            overhead = it["eager"] - it["kernel"]
            print(
                f"{name:14} {label:22} {it['eager']:8.2f} {it['issue']:8.2f} {it['latency']:8.2f}"
                f" {it['kernel']:8.2f} {overhead:8.2f}"
            )
        own, other = middle["warpsmith.attention"], middle["SDPA"]
        ratios = ", ".join(f"{row} {other[row] / own[row]:.2f}x" for row in ("eager", "latency", "kernel"))
        best = best_backend(q, k, v, is_causal).name
        print(f"{name:14} speed of warpsmith.attention over SDPA ({best} is its best): {ratios}")


if __name__ == "__main__":
    main()
