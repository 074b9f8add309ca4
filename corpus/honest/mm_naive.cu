// warpsmith: reference = "ref.py:matmul"
// warpsmith: sizes = { m = 40, n = 50, k = 60 }
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: work = { flops = "2 * m * n * k" }
// warpsmith: launch = { grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"], block = [16, 16] }
// warpsmith: [arguments]
// warpsmith: a = "in fp32[m, k]"
// warpsmith: b = "in fp32[k, n]"
// warpsmith: c = "out fp32[m, n]"
// warpsmith: m = "size"
// warpsmith: n = "size"
// warpsmith: k = "size"
__global__ void mm_naive(const float* a, const float* b, float* c, int m, int n, int k) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    float acc = 0.f;
    for (int i = 0; i < k; ++i) acc += a[row * k + i] * b[i * n + col];
    c[row * n + col] = acc;
}
