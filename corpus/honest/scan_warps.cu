// warpsmith: reference = "ref.py:cumsum"
// warpsmith: sizes = { rows = 4, cols = { default = 250, max = 256 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void scan_warps(const float* x, float* y, int cols) {
    __shared__ float sums[8];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    float v = t < cols ? x[blockIdx.x * cols + t] : 0.f;
    for (int d = 1; d < 32; d <<= 1) {
        float u = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += u;
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        float s = lane < 8 ? sums[lane] : 0.f;
        for (int d = 1; d < 8; d <<= 1) {
            float u = __shfl_up_sync(~0u, s, d);
            if (lane >= d) s += u;
        }
        if (lane < 8) sums[lane] = s;
    }
    __syncthreads();
    if (warp) v += sums[warp - 1];
    if (t < cols) y[blockIdx.x * cols + t] = v;
}
