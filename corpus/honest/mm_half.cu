#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:matmul_bt"
// warpsmith: sizes = { m = 24, n = 40, k = { default = 64, multiple_of = 2 } }
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: work = { flops = "2 * m * n * k" }
// warpsmith: launch = { grid = ["ceil_div(n, 8)", "ceil_div(m, 8)"], block = [8, 8] }
// warpsmith: [arguments]
// warpsmith: a = "in fp16[m, k]"
// warpsmith: b = "in fp16[n, k]"
// warpsmith: c = "out fp16[m, n]"
// warpsmith: m = "size"
// warpsmith: n = "size"
// warpsmith: k = "size"
__global__ void mm_half(const __half* a, const __half* b, __half* c, int m, int n, int k) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= m || col >= n) return;
    const __half2* x = (const __half2*)(a + row * k);
    const __half2* y = (const __half2*)(b + col * k);
    float acc = 0.f;
    for (int i = 0; i < k / 2; ++i) {
        float2 u = __half22float2(x[i]), v = __half22float2(y[i]);
        acc += u.x * v.x + u.y * v.y;
    }
    c[row * n + col] = __float2half(acc);
}
