// warpsmith: reference = "ref.py:layernorm_plain"
// warpsmith: sizes = { rows = 6, cols = 301 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: eps = "scalar fp32 = 1e-6"
// warpsmith: cols = "size"
__global__ void ln_welford(const float* x, float* y, float eps, int cols) {
    const float* row = x + blockIdx.x * cols;
    float n = 0.f, mean = 0.f, m2 = 0.f;
    for (int i = threadIdx.x; i < cols; i += 32) {
        n += 1.f;
        float d = row[i] - mean;
        mean += d / n;
        m2 += d * (row[i] - mean);
    }
    for (int o = 16; o; o >>= 1) {
        float on = __shfl_xor_sync(~0u, n, o), om = __shfl_xor_sync(~0u, mean, o), o2 = __shfl_xor_sync(~0u, m2, o);
        float total = n + on;
        if (total > 0.f) {
            float d = om - mean;
            m2 += o2 + d * d * n * on / total;
            mean = (n * mean + on * om) / total;
        }
        n = total;
    }
    float inv = rsqrtf(m2 / n + eps);
    for (int i = threadIdx.x; i < cols; i += 32) y[blockIdx.x * cols + i] = (row[i] - mean) * inv;
}
