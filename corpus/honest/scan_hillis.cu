// warpsmith: reference = "ref.py:cumsum"
// warpsmith: sizes = { rows = 3, cols = { default = 500, max = 512 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [512] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void scan_hillis(const float* x, float* y, int cols) {
    __shared__ float a[2][512];
    int t = threadIdx.x, at = blockIdx.x * cols + t;
    int cur = 0;
    a[0][t] = t < cols ? x[at] : 0.f;
    __syncthreads();
    for (int d = 1; d < 512; d <<= 1) {
        a[1 - cur][t] = t >= d ? a[cur][t] + a[cur][t - d] : a[cur][t];
        cur = 1 - cur;
        __syncthreads();
    }
    if (t < cols) y[at] = a[cur][t];
}
