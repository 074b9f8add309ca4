// warpsmith: reference = "ref.py:matmul_bt"
// warpsmith: sizes = { m = 20, n = 30, k = { default = 64, multiple_of = 4 } }
// warpsmith: work = { flops = "2 * m * n * k" }
// warpsmith: launch = { grid = ["ceil_div(n, 8)", "ceil_div(m, 8)"], block = [8, 8] }
// warpsmith: [arguments]
// warpsmith: a = "in i8[m, k] = -128..127"
// warpsmith: b = "in i8[n, k] = -128..127"
// warpsmith: c = "out i32[m, n]"
// warpsmith: m = "size"
// warpsmith: n = "size"
// warpsmith: k = "size"
__global__ void mm_int8(const signed char* a, const signed char* b, int* c, int m, int n, int k) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= m || col >= n) return;
    const int* x = (const int*)(a + row * k);
    const int* y = (const int*)(b + col * k);
    int acc = 0;
    for (int i = 0; i < k / 4; ++i) acc = __dp4a(x[i], y[i], acc);
    c[row * n + col] = acc;
}
