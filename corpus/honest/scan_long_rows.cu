// warpsmith: reference = "ref.py:cumsum"
// warpsmith: sizes = { rows = 2, cols = 1300 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void scan_long_rows(const float* x, float* y, int cols) {
    __shared__ float part[4];
    __shared__ float carry;
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    if (t == 0) carry = 0.f;
    for (int base = 0; base < cols; base += 128) {
        int i = base + t;
        float v = i < cols ? x[blockIdx.x * cols + i] : 0.f;
        for (int d = 1; d < 32; d *= 2) {
            float u = __shfl_up_sync(~0u, v, d);
            v += lane >= d ? u : 0.f;
        }
        if (lane == 31) part[warp] = v;
        __syncthreads();
        float before = carry;
        for (int w = 0; w < warp; ++w) before += part[w];
        v += before;
        if (i < cols) y[blockIdx.x * cols + i] = v;
        __syncthreads();
        if (t == 127) carry = v;
    }
}
