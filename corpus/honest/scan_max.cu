// warpsmith: reference = "ref.py:cummax"
// warpsmith: sizes = { rows = 6, cols = { default = 200, max = 1024 } }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["rows"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void scan_max(const float* x, float* y, int cols) {
    __shared__ float s[64];
    int per = (cols + 63) / 64, first = threadIdx.x * per;
    const float* row = x + blockIdx.x * cols;
    float m = -INFINITY;
    for (int k = first; k < min(first + per, cols); ++k) m = fmaxf(m, row[k]);
    s[threadIdx.x] = m;
    __syncthreads();
    m = -INFINITY;
    for (int k = 0; k < threadIdx.x; ++k) m = fmaxf(m, s[k]);
    for (int k = first; k < min(first + per, cols); ++k) y[blockIdx.x * cols + k] = m = fmaxf(m, row[k]);
}
