// warpsmith: reference = "ref.py:log_softmax"
// warpsmith: sizes = { rows = 5, cols = 190 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [96] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void sm_log(const float* x, float* y, int cols) {
    __shared__ float a[3];
    x += blockIdx.x * cols;
    float m = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 96) m = fmaxf(m, x[i]);
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_down_sync(~0u, m, o));
    if (threadIdx.x % 32 == 0) a[threadIdx.x / 32] = m;
    __syncthreads();
    m = fmaxf(a[0], fmaxf(a[1], a[2]));
    __syncthreads();
    float s = 0;
    for (int i = threadIdx.x; i < cols; i += 96) s += expf(x[i] - m);
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) a[threadIdx.x / 32] = s;
    __syncthreads();
    float lse = logf(a[0] + a[1] + a[2]);
    for (int i = threadIdx.x; i < cols; i += 96) y[blockIdx.x * cols + i] = x[i] - m - lse;
}
