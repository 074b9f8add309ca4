// warpsmith: reference = "ref.py:hist"
// warpsmith: sizes = { n = 4000, bins = { default = 32, min = 32, max = 32 } }
// warpsmith: launch = { grid = [3], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in u8[n] = 0..31"
// warpsmith: y = "out u32[bins] = 0"
// warpsmith: n = "size"
__global__ void hi_shared(const unsigned char* x, unsigned* y, int n) {
    __shared__ unsigned s[32];
    if (threadIdx.x < 32) s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) atomicAdd(&s[x[i]], 1u);
    __syncthreads();
    if (threadIdx.x < 32) atomicAdd(&y[threadIdx.x], s[threadIdx.x]);
}
