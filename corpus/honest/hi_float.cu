// warpsmith: reference = "ref.py:hist_float"
// warpsmith: sizes = { n = 2500, bins = { default = 20, min = 20, max = 20 } }
// warpsmith: launch = { grid = ["ceil_div(n, 128)"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n] = -1..1"
// warpsmith: y = "out i32[bins] = 0"
// warpsmith: n = "size"
__global__ void hi_float(const float* x, int* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    float at = floorf((x[i] + 1.f) * 0.5f * 20.f);
    int b = (int)fminf(fmaxf(at, 0.f), 19.f);
    atomicAdd(&y[b], 1);
}
