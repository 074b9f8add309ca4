// warpsmith: reference = "ref.py:softmax_columns"
// warpsmith: sizes = { rows = 60, cols = 50 }
// warpsmith: tolerance = { reduction = "rows" }
// warpsmith: launch = { grid = ["ceil_div(cols, 32)"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: rows = "size"
// warpsmith: cols = "size"
__global__ void sm_columns(const float* x, float* y, int rows, int cols) {
    int c = blockIdx.x * 32 + threadIdx.x;
    if (c >= cols) return;
    float m = x[c];
    for (int r = 1; r < rows; ++r) m = fmaxf(m, x[r * cols + c]);
    float s = 0.f;
    for (int r = 0; r < rows; ++r) {
        float e = __expf(x[r * cols + c] - m);
        y[r * cols + c] = e;
        s += e;
    }
    float inv = __frcp_rn(s);
    for (int r = 0; r < rows; ++r) y[r * cols + c] *= inv;
}
