// warpsmith: reference = "ref.py:col_sum"
// warpsmith: sizes = { rows = 200, cols = 70 }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "rows" }
// warpsmith: launch = { grid = ["ceil_div(cols, 32)", "ceil_div(rows, 64)"], block = [32, 8] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[cols] = 0"
// warpsmith: rows = "size"
// warpsmith: cols = "size"
__global__ void red_cols(const float* x, float* y, int rows, int cols) {
    int c = blockIdx.x * 32 + threadIdx.x;
    int r0 = blockIdx.y * 64, r1 = min(rows, r0 + 64);
    float acc = 0;
    if (c < cols)
        for (int r = r0 + threadIdx.y; r < r1; r += 8) acc += x[r * cols + c];
    __shared__ float s[8][33];
    s[threadIdx.y][threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.y == 0 && c < cols) {
        float t = 0;
        for (int k = 0; k < 8; ++k) t += s[k][threadIdx.x];
        atomicAdd(&y[c], t);
    }
}
