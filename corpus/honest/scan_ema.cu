// warpsmith: reference = "ref.py:ema"
// warpsmith: sizes = { rows = 70, steps = 60 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "steps" }
// warpsmith: launch = { grid = ["ceil_div(rows, 32)"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, steps]"
// warpsmith: y = "out fp32[rows, steps]"
// warpsmith: keep = "scalar fp32 = 0.75"
// warpsmith: rows = "size"
// warpsmith: steps = "size"
__global__ void scan_ema(const float* x, float* y, float keep, int rows, int steps) {
    int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows) return;
    float state = 0.f;
    for (int t = 0; t < steps; ++t) {
        state = keep * state + (1.f - keep) * x[row * steps + t];
        y[row * steps + t] = state;
    }
}
