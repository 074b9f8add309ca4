// warpsmith: reference = "ref.py:relu_max"
// warpsmith: sizes = { n = 2500 }
// warpsmith: launch = { grid = ["ceil_div(n, 128)"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[1] = 0"
// warpsmith: n = "size"
extern "C" __global__ void red_relu_max(const float* x, float* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    float v = i < n ? fmaxf(x[i], 0.f) : 0.f;
    for (int o = 16; o; o /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    // Floats that are not negative are ordered as their bits are.
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<int*>(y), __float_as_int(v));
}
