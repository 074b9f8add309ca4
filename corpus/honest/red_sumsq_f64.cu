// warpsmith: reference = "ref.py:sumsq"
// warpsmith: sizes = { n = 2000 }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "n" }
// warpsmith: launch = { grid = [5], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp64[n]"
// warpsmith: y = "out fp64[1] = 0"
// warpsmith: n = "size"
__global__ void red_sumsq_f64(const double* x, double* y, int n) {
    double acc = 0;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) acc += x[i] * x[i];
    __shared__ double s[64];
    s[threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.x < 32) {
        double v = s[threadIdx.x] + s[threadIdx.x + 32];
        for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
        if (threadIdx.x == 0) atomicAdd(y, v);
    }
}
