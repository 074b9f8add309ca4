// warpsmith: reference = "ref.py:total"
// warpsmith: sizes = { n = 3000 }
// warpsmith: deterministic = false
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[1] = 0"
// warpsmith: n = "size"
extern "C" __global__ void red_sum_shuffle(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.f;
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if ((threadIdx.x & 31) == 0) atomicAdd(y, v);
}
