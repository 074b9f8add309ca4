"""Finds a bug in a CUDA kernel and one in a Triton kernel, on a machine without a GPU.

pip install warpsmith numpy triton
python quickstart.py
"""

import numpy as np

import warpsmith

SOURCE = """\
__global__ void block_sums(const float* x, float* sums) {
    __shared__ float part[128];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * 128 + t];
    // A barrier is missing here.
    if (t == 0) {
        float sum = 0.0f;
        for (int i = 0; i < 128; ++i) sum += part[i];
        sums[blockIdx.x] = sum;
    }
}
"""


def cuda() -> None:
    x = np.arange(256, dtype=np.float32)
    sums = np.zeros(2, dtype=np.float32)
    report = warpsmith.sanitize(SOURCE, grid=2, block=128, args={"x": x, "sums": warpsmith.out(sums)})
    print("CUDA: a race in shared memory\n")
    print(report, "\n")
    finding = next(finding for finding in report.errors if finding.kind == "race")
    print(f"{finding.file}:{finding.line}: {finding.kind}, first in block {finding.block}, thread {finding.thread}\n")

    fixed = SOURCE.replace("// A barrier is missing here.", "__syncthreads();")
    warpsmith.sanitize(fixed, grid=2, block=128, args=[x, warpsmith.out(sums)]).raise_for_errors()
    assert np.array_equal(sums, x.reshape(2, 128).sum(axis=1))


def triton() -> None:
    import triton
    import triton.language as tl

    import warpsmith.triton

    @triton.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        total = tl.load(x + at, mask=at < n) + tl.load(y + at)  # The second load has no mask.
        tl.store(out + at, total, mask=at < n)

    x, y = np.ones(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
    out = np.zeros(1000, dtype=np.float32)
    print("Triton: a load out of bounds\n")
    with warpsmith.triton.virtual(raise_on_error=False) as session:
        add[(4,)](x, y, out, 1000, BLOCK=256)
    print(session.reports[0], "\n")
    finding = session.errors[0]
    print(f"{finding.file}:{finding.line}: {finding.kind} in `{finding.allocation}`")


if __name__ == "__main__":
    cuda()
    triton()
