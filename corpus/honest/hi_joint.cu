// warpsmith: reference = "ref.py:hist_joint"
// warpsmith: sizes = { n = 1800, bins = { default = 8, min = 8, max = 8 } }
// warpsmith: launch = { grid = [4], block = [96] }
// warpsmith: [arguments]
// warpsmith: a = "in i32[n] = 0..7"
// warpsmith: b = "in i32[n] = 0..7"
// warpsmith: y = "out i32[bins, bins] = 0"
// warpsmith: n = "size"
__global__ void hi_joint(const int* a, const int* b, int* y, int n) {
    __shared__ int s[64];
    for (int i = threadIdx.x; i < 64; i += blockDim.x) s[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[a[i] * 8 + b[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 64; i += blockDim.x) atomicAdd(&y[i], s[i]);
}
