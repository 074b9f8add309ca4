"""Compiles the kernels of this folder to PTX, and saves each with its launch, inputs and expected outputs.

    python make.py OUT [triton] [numba] [cute]

No GPU is needed. requirements.txt lists the wheels.
"""

import importlib
import os
import sys
from pathlib import Path

import numpy as np

COMPILERS = ("triton", "numba", "cute")


def main():
    folder, *chosen = sys.argv[1:]
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    # The CuTe DSL also writes its PTX into the working directory.
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    os.chdir(out)
    # Triton asks for a choice. Fused products are what its users have today.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    for compiler in chosen or COMPILERS:
        kernels = importlib.import_module(f"{compiler}_kernels")
        for case in kernels.cases(np.random.default_rng(20)):
            case.save(out)
            print(case.name, flush=True)


if __name__ == "__main__":
    main()
