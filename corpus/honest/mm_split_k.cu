// warpsmith: reference = "ref.py:matmul"
// warpsmith: sizes = { m = 20, n = 24, k = 200 }
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: work = { flops = "2 * m * n * k" }
// warpsmith: launch = { grid = ["ceil_div(n, 8)", "ceil_div(m, 8)", "ceil_div(k, 64)"], block = [8, 8] }
// warpsmith: [arguments]
// warpsmith: a = "in fp32[m, k]"
// warpsmith: b = "in fp32[k, n]"
// warpsmith: c = "out fp32[m, n] = 0"
// warpsmith: m = "size"
// warpsmith: n = "size"
// warpsmith: k = "size"
__global__ void mm_split_k(const float* a, const float* b, float* c, int m, int n, int k) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x, k0 = blockIdx.z * 64;
    if (row >= m || col >= n) return;
    float acc = 0.f;
    for (int i = k0; i < min(k, k0 + 64); ++i) acc += a[row * k + i] * b[i * n + col];
    atomicAdd(&c[row * n + col], acc);
}
