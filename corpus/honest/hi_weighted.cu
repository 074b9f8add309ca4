// warpsmith: reference = "ref.py:hist_weighted"
// warpsmith: sizes = { n = 1500, bins = { default = 16, min = 16, max = 16 } }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in i32[n] = 0..15"
// warpsmith: w = "in fp32[n]"
// warpsmith: y = "out fp32[bins] = 0"
// warpsmith: n = "size"
__global__ void hi_weighted(const int* x, const float* w, float* y, int n) {
    __shared__ float s[16];
    if (threadIdx.x < 16) s[threadIdx.x] = 0.f;
    __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(s + x[i], w[i]);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(y + threadIdx.x, s[threadIdx.x]);
}
