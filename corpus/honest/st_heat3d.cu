// warpsmith: reference = "ref.py:heat3"
// warpsmith: sizes = { d = 10, h = 12, w = 20 }
// warpsmith: launch = { grid = ["ceil_div(w, 16)", "ceil_div(h, 4)", "d"], block = [16, 4] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[d, h, w]"
// warpsmith: y = "out fp32[d, h, w]"
// warpsmith: k = "scalar fp32 = 0.1"
// warpsmith: d = "size"
// warpsmith: h = "size"
// warpsmith: w = "size"
__global__ void st_heat3d(const float* x, float* y, float k, int d, int h, int w) {
    int c = blockIdx.x * 16 + threadIdx.x, b = blockIdx.y * 4 + threadIdx.y, a = blockIdx.z;
    if (b >= h || c >= w) return;
    auto at = [&](int i, int j, int l) {
        return i < 0 || i >= d || j < 0 || j >= h || l < 0 || l >= w ? 0.f : x[(i * h + j) * w + l];
    };
    float v = at(a, b, c);
    float s = at(a - 1, b, c) + at(a + 1, b, c) + at(a, b - 1, c) + at(a, b + 1, c) + at(a, b, c - 1) + at(a, b, c + 1);
    y[(a * h + b) * w + c] = v + k * (s - 6.f * v);
}
