// warpsmith: reference = "ref.py:laplace2"
// warpsmith: sizes = { h = 40, w = 50 }
// warpsmith: launch = { grid = ["ceil_div(w, 32)", "ceil_div(h, 8)"], block = [32, 8] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[h, w]"
// warpsmith: y = "out fp32[h, w]"
// warpsmith: h = "size"
// warpsmith: w = "size"
__global__ void st_laplace(const float* x, float* y, int h, int w) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
    if (i >= h || j >= w) return;
    float up = i > 0 ? x[(i - 1) * w + j] : 0.f, down = i + 1 < h ? x[(i + 1) * w + j] : 0.f;
    float left = j > 0 ? x[i * w + j - 1] : 0.f, right = j + 1 < w ? x[i * w + j + 1] : 0.f;
    y[i * w + j] = up + down + left + right - 4.f * x[i * w + j];
}
