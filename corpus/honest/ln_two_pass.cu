// warpsmith: reference = "ref.py:layernorm"
// warpsmith: sizes = { rows = 5, cols = 600 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: w = "in fp32[cols]"
// warpsmith: b = "in fp32[cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: cols = "size"
__device__ float sum_block(float v) {
    __shared__ float s[4];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    return s[0] + s[1] + s[2] + s[3];
}
__global__ void ln_two_pass(const float* x, const float* w, const float* b, float* y, float eps, int cols) {
    x += blockIdx.x * cols;
    float s = 0;
    for (int i = threadIdx.x; i < cols; i += 128) s += x[i];
    float mean = sum_block(s) / cols;
    float q = 0;
    for (int i = threadIdx.x; i < cols; i += 128) q += (x[i] - mean) * (x[i] - mean);
    float inv = rsqrtf(sum_block(q) / cols + eps);
    for (int i = threadIdx.x; i < cols; i += 128) y[blockIdx.x * cols + i] = (x[i] - mean) * inv * w[i] + b[i];
}
