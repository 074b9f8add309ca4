// warpsmith: reference = "ref.py:gemv"
// warpsmith: sizes = { m = 30, n = 500 }
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: work = { flops = "2 * m * n" }
// warpsmith: launch = { grid = ["ceil_div(m, 4)"], block = [32, 4] }
// warpsmith: [arguments]
// warpsmith: a = "in fp32[m, n]"
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[m]"
// warpsmith: m = "size"
// warpsmith: n = "size"
__global__ void mm_gemv(const float* a, const float* x, float* y, int m, int n) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= m) return;
    float acc = 0;
    for (int i = threadIdx.x; i < n; i += 32) acc += a[row * n + i] * x[i];
    for (int o = 16; o; o >>= 1) acc += __shfl_down_sync(~0u, acc, o);
    if (threadIdx.x == 0) y[row] = acc;
}
