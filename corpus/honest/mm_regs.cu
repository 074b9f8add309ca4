// warpsmith: reference = "ref.py:gemm_ab"
// warpsmith: sizes = { m = 64, n = 64, k = 64 }
// warpsmith: tolerance = { reduction = "k" }
// warpsmith: work = { flops = "2 * m * n * k" }
// warpsmith: launch = { grid = ["ceil_div(n, 32)", "ceil_div(m, 32)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: a = "in fp32[m, k]"
// warpsmith: b = "in fp32[k, n]"
// warpsmith: c = "inout fp32[m, n]"
// warpsmith: alpha = "scalar fp32 = 1.5"
// warpsmith: beta = "scalar fp32 = 0.5"
// warpsmith: m = "size"
// warpsmith: n = "size"
// warpsmith: k = "size"
__global__ void mm_regs(const float* a, const float* b, float* c, float alpha, float beta, int m, int n, int k) {
    __shared__ float sa[8][32], sb[8][32];
    int t = threadIdx.x, r0 = blockIdx.y * 32, c0 = blockIdx.x * 32, tr = t / 8 * 4, tc = t % 8 * 4;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += 8) {
        for (int i = t; i < 256; i += 64) {
            int r = i / 8, kk = i % 8;
            sa[kk][r] = r0 + r < m && k0 + kk < k ? a[(r0 + r) * k + k0 + kk] : 0.f;
            int kb = i / 32, cc = i % 32;
            sb[kb][cc] = c0 + cc < n && k0 + kb < k ? b[(k0 + kb) * n + c0 + cc] : 0.f;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] += sa[kk][tr + i] * sb[kk][tc + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int r = r0 + tr + i, cc = c0 + tc + j;
            if (r < m && cc < n) c[r * n + cc] = alpha * acc[i][j] + beta * c[r * n + cc];
        }
}
