// warpsmith: reference = "ref.py:fir"
// warpsmith: sizes = { n = 900, k = { default = 7, min = 7, max = 7 } }
// warpsmith: tolerance = { reduction = 7 }
// warpsmith: launch = { grid = ["ceil_div(n, 64)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: taps = "in fp32[k]"
// warpsmith: y = "out fp32[n]"
// warpsmith: n = "size"
__global__ void st_fir(const float* x, const float* taps, float* y, int n) {
    __shared__ float s[64 + 6];
    int first = blockIdx.x * 64 - 3;
    for (int i = threadIdx.x; i < 70; i += 64) {
        int at = first + i;
        s[i] = at >= 0 && at < n ? x[at] : 0.f;
    }
    __syncthreads();
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    float acc = 0.f;
#pragma unroll
    for (int k = 0; k < 7; ++k) acc += taps[k] * s[threadIdx.x + k];
    y[i] = acc;
}
