// warpsmith: reference = "ref.py:moments"
// warpsmith: sizes = { n = 3333 }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = ["ceil_div(n, 1024)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: total = "out fp32[1] = 0"
// warpsmith: squares = "out fp32[1] = 0"
// warpsmith: count = "out i32[1] = 0"
// warpsmith: n = "size"
__global__ void red_moments(const float* x, float* total, float* squares, int* count, int n) {
    float s = 0, q = 0;
    int positive = 0;
    for (int k = 0; k < 4; ++k) {
        int i = blockIdx.x * 1024 + k * 256 + threadIdx.x;
        float v = i < n ? x[i] : 0.f;
        s += v;
        q += v * v;
        positive += __popc(__ballot_sync(~0u, v > 0.f));
    }
    for (int o = 1; o < 32; o *= 2) {
        s += __shfl_xor_sync(~0u, s, o);
        q += __shfl_xor_sync(~0u, q, o);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(total, s);
        atomicAdd(squares, q);
        atomicAdd(count, positive);
    }
}
