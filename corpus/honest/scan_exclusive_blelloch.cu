// warpsmith: reference = "ref.py:cumsum_exclusive"
// warpsmith: sizes = { rows = 3, cols = { default = 256, max = 256 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void scan_exclusive_blelloch(const float* x, float* y, int cols) {
    __shared__ float s[256];
    int t = threadIdx.x;
    x += blockIdx.x * cols;
    y += blockIdx.x * cols;
    s[2 * t] = 2 * t < cols ? x[2 * t] : 0.f;
    s[2 * t + 1] = 2 * t + 1 < cols ? x[2 * t + 1] : 0.f;
    int offset = 1;
    for (int d = 128; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[255] = 0;
    for (int d = 1; d < 256; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            float v = s[a];
            s[a] = s[b];
            s[b] += v;
        }
    }
    __syncthreads();
    if (2 * t < cols) y[2 * t] = s[2 * t];
    if (2 * t + 1 < cols) y[2 * t + 1] = s[2 * t + 1];
}
