// warpsmith: reference = "ref.py:cumsum_columns"
// warpsmith: sizes = { rows = 90, cols = 100 }
// warpsmith: tolerance = { reduction = "rows" }
// warpsmith: launch = { grid = ["ceil_div(cols, 64)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: rows = "size"
// warpsmith: cols = "size"
__global__ void scan_columns(const float* x, float* y, int rows, int cols) {
    int c = blockIdx.x * 64 + threadIdx.x;
    if (c >= cols) return;
    float sum = 0;
    for (int r = 0; r < rows; ++r) y[r * cols + c] = sum += x[r * cols + c];
}
