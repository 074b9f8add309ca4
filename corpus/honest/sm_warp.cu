// warpsmith: reference = "ref.py:softmax"
// warpsmith: sizes = { rows = 9, cols = { default = 100, max = 128 } }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["ceil_div(rows, 4)"], block = [32, 4] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: rows = "size"
// warpsmith: cols = "size"
__global__ void sm_warp(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    float v[4], m = -INFINITY, sum = 0.f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = k * 32 + threadIdx.x;
        v[k] = c < cols ? x[row * cols + c] : -INFINITY;
        m = fmaxf(m, v[k]);
    }
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        v[k] = __expf(v[k] - m);
        sum += v[k];
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = k * 32 + threadIdx.x;
        if (c < cols) y[row * cols + c] = v[k] / sum;
    }
}
