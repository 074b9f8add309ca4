// warpsmith: reference = "ref.py:softmax_causal"
// warpsmith: sizes = { heads = 3, n = { default = 70, max = 256 } }
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = ["n", "heads"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[heads, n, n]"
// warpsmith: y = "out fp32[heads, n, n]"
// warpsmith: n = "size"
__global__ void sm_causal(const float* x, float* y, int n) {
    int row = blockIdx.x;
    long long at = ((long long)blockIdx.y * n + row) * n;
    float m = -INFINITY, s = 0.f;
    for (int i = threadIdx.x; i <= row; i += 32) m = fmaxf(m, x[at + i]);
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
    for (int i = threadIdx.x; i <= row; i += 32) s += expf(x[at + i] - m);
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    for (int i = threadIdx.x; i < n; i += 32) y[at + i] = i <= row ? expf(x[at + i] - m) / s : 0.f;
}
