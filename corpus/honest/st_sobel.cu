// warpsmith: reference = "ref.py:sobel"
// warpsmith: sizes = { h = 30, w = 34 }
// warpsmith: launch = { grid = ["ceil_div(w, 16)", "ceil_div(h, 16)"], block = [16, 16] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[h, w]"
// warpsmith: y = "out fp32[h, w]"
// warpsmith: h = "size"
// warpsmith: w = "size"
__global__ void st_sobel(const float* __restrict__ x, float* __restrict__ y, int h, int w) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= h || j >= w) return;
    auto p = [&](int a, int b) { return __ldg(&x[min(max(i + a, 0), h - 1) * w + min(max(j + b, 0), w - 1)]); };
    float gx = p(-1, 1) + 2 * p(0, 1) + p(1, 1) - p(-1, -1) - 2 * p(0, -1) - p(1, -1);
    float gy = p(1, -1) + 2 * p(1, 0) + p(1, 1) - p(-1, -1) - 2 * p(-1, 0) - p(-1, 1);
    y[i * w + j] = sqrtf(gx * gx + gy * gy);
}
