"""Runs KernelBench's own evaluator on the files of ``warpsmith export kernelbench``.

    python run_kernelbench.py FOLDER [fp16|bf16]

Needs a GPU and the package ``kernelbench`` (or its folder ``src`` in PYTHONPATH).
"""

import sys
from pathlib import Path

try:
    import torch
    from kernelbench.eval import eval_kernel_against_ref
except ImportError as error:
    sys.exit(f"error: {error}; install PyTorch and KernelBench first")


def main() -> int:
    if len(sys.argv) not in (2, 3) or not torch.cuda.is_available():
        print(__doc__ if torch.cuda.is_available() else "error: there is no GPU", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    precision = {"fp16": torch.float16, "bf16": torch.bfloat16}[sys.argv[2] if len(sys.argv) == 3 else "fp16"]
    result = eval_kernel_against_ref(
        (folder / "model.py").read_text(),
        (folder / "model_new.py").read_text(),
        num_correct_trials=5,
        num_perf_trials=100,
        measure_performance=True,
        device=torch.device("cuda:0"),
        precision=precision,
    )
    print(result)
    reference = getattr(result, "ref_runtime", -1)
    if reference and reference > 0 and result.runtime > 0:
        print(f"speed over the reference: {reference / result.runtime:.2f}x")
    return 0 if result.correctness else 1


if __name__ == "__main__":
    sys.exit(main())
