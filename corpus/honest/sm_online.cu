// warpsmith: reference = "ref.py:softmax"
// warpsmith: sizes = { rows = 4, cols = 333 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void sm_online(const float* x, float* y, int cols) {
    __shared__ float ms[64], ds[64];
    const float* row = x + blockIdx.x * cols;
    float m = -INFINITY, d = 0.f;
    for (int i = threadIdx.x; i < cols; i += 64) {
        float v = row[i], n = fmaxf(m, v);
        d = d * __expf(m - n) + __expf(v - n);
        m = n;
    }
    ms[threadIdx.x] = m;
    ds[threadIdx.x] = d;
    __syncthreads();
    for (int k = 32; k; k >>= 1) {
        if (threadIdx.x < k) {
            float a = ms[threadIdx.x], b = ms[threadIdx.x + k], n = fmaxf(a, b);
            float da = a == -INFINITY ? 0.f : ds[threadIdx.x] * __expf(a - n);
            float db = b == -INFINITY ? 0.f : ds[threadIdx.x + k] * __expf(b - n);
            ms[threadIdx.x] = n;
            ds[threadIdx.x] = da + db;
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < cols; i += 64) y[blockIdx.x * cols + i] = __expf(row[i] - ms[0]) / ds[0];
}
