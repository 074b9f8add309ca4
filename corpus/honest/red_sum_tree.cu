// warpsmith: reference = "ref.py:total"
// warpsmith: sizes = { n = 5000 }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = [4], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[1] = 0"
// warpsmith: n = "size"
extern "C" __global__ void red_sum_tree(const float* x, float* y, int n) {
    __shared__ float s[128];
    float acc = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) acc += x[i];
    s[threadIdx.x] = acc;
    __syncthreads();
    for (int k = 64; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, s[0]);
}
