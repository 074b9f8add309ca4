// warpsmith: reference = "ref.py:matmul"
// warpsmith: sizes = { m = 33, n = 70, k = 48 }
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
__global__ void mm_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float sa[16][17], sb[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0.f;
    for (int k0 = 0; k0 < k; k0 += 16) {
        sa[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.f;
        sb[ty][tx] = col < n && k0 + ty < k ? b[(k0 + ty) * n + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) acc = fmaf(sa[ty][i], sb[i][tx], acc);
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = acc;
}
