// warpsmith: reference = "ref.py:cumsum"
// warpsmith: sizes = { rows = 3, cols = { default = 900, max = 1024 } }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["rows"], block = [1024] }
// warpsmith: [arguments]
// warpsmith: x = "in i32[rows, cols] = -1000..1000"
// warpsmith: y = "out i32[rows, cols]"
// warpsmith: cols = "size"
__global__ __launch_bounds__(1024) void scan_i32(const int* x, int* y, int cols) {
    __shared__ int s[32];
    int t = threadIdx.x, lane = t & 31;
    int v = t < cols ? x[blockIdx.x * cols + t] : 0;
    for (int d = 1; d < 32; d <<= 1) {
        int u = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += u;
    }
    if (lane == 31) s[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        int w = s[t];
        for (int d = 1; d < 32; d <<= 1) {
            int u = __shfl_up_sync(~0u, w, d);
            if (t >= d) w += u;
        }
        s[t] = w;
    }
    __syncthreads();
    if (t >= 32) v += s[t / 32 - 1];
    if (t < cols) y[blockIdx.x * cols + t] = v;
}
