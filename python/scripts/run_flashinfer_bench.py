"""Runs FlashInfer-Bench's own evaluator on the files of ``warpsmith export flashinfer-bench``.

    python run_flashinfer_bench.py FOLDER

Needs a GPU and the packages ``flashinfer-bench`` and ``warpsmith``. FOLDER is not changed.
"""

import sys
from pathlib import Path

try:
    import torch
    from flashinfer_bench import Benchmark, BenchmarkConfig, EvaluationStatus, TraceSet
except ImportError as error:
    sys.exit(f"error: {error}; install PyTorch and FlashInfer-Bench first")


def describe(trace) -> str:
    """One line with the verdict, the errors and the times of a trace."""
    evaluation = trace.evaluation
    line = f"{trace.definition}: {evaluation.status.value}"
    if evaluation.correctness is not None:
        line += f", largest error {evaluation.correctness.max_absolute_error:.1e}"
    if evaluation.performance is not None:
        times = evaluation.performance
        line += f", {1e3 * times.latency_ms:.1f} us, reference {1e3 * times.reference_latency_ms:.1f} us"
        line += f", {times.speedup_factor:.2f}x"
    return line


def main() -> int:
    if len(sys.argv) != 2 or not torch.cuda.is_available():
        print(__doc__ if torch.cuda.is_available() else "error: there is no GPU", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    if not (folder / "definitions").is_dir():
        print(f"error: {folder} has no folder `definitions`", file=sys.stderr)
        print(f"hint: warpsmith export flashinfer-bench --problem mission --out {folder}", file=sys.stderr)
        return 2
    # The isolated runner has a process for each evaluation, so a failure does not affect the next one.
    benchmark = Benchmark(TraceSet.from_path(str(folder)), BenchmarkConfig(use_isolated_runner=True))
    results = benchmark.run_all(dump_traces=False)
    traces = [trace for traces in results.traces.values() for trace in traces]
    for trace in traces:
        print(describe(trace))
        if trace.evaluation.status != EvaluationStatus.PASSED and trace.evaluation.log:
            print(trace.evaluation.log)
    if not traces:
        print("error: nothing was evaluated", file=sys.stderr)
    passed = all(trace.evaluation.status == EvaluationStatus.PASSED for trace in traces)
    return 0 if traces and passed else 1


if __name__ == "__main__":
    sys.exit(main())
