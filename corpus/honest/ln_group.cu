// warpsmith: reference = "ref.py:groupnorm"
// warpsmith: sizes = { n = 2, c = { default = 8, multiple_of = 4 }, l = 50 }
// warpsmith: tolerance = { reduction = "c * l / 4" }
// warpsmith: launch = { grid = ["n", 4], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n, c, l]"
// warpsmith: y = "out fp32[n, c, l]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: groups = "scalar i32 = 4"
// warpsmith: c = "size"
// warpsmith: l = "size"
__global__ void ln_group(const float* x, float* y, float eps, int groups, int c, int l) {
    __shared__ float s[64];
    int count = c / groups * l, base = (blockIdx.x * groups + blockIdx.y) * count, t = threadIdx.x;
    float a = 0;
    for (int i = t; i < count; i += 64) a += x[base + i];
    s[t] = a;
    for (int k = 32; k; k >>= 1) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    __syncthreads();
    float mean = s[0] / count;
    __syncthreads();
    a = 0;
    for (int i = t; i < count; i += 64) a += (x[base + i] - mean) * (x[base + i] - mean);
    s[t] = a;
    for (int k = 32; k; k >>= 1) {
        __syncthreads();
        if (t < k) s[t] += s[t + k];
    }
    __syncthreads();
    float inv = rsqrtf(s[0] / count + eps);
    for (int i = t; i < count; i += 64) y[base + i] = (x[base + i] - mean) * inv;
}
