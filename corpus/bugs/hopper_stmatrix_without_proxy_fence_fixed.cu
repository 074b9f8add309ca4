// A tile written with stmatrix is multiplied without a proxy fence.
// warpsmith: --arch sm_90a --kernel multiply --grid 1 --block 128 --shared 0
// warpsmith: --arg a=f16[64,16]=normal(1) --arg b=f16[64,16]=normal(2) --arg c=inout,f32[64,64]=zeros
#include "../hopper.cuh"
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(128) multiply(const __half* a, const __half* b, float* c) {
    __shared__ __align__(1024) __half A[64 * 16], B[64 * 16];
    int t = threadIdx.x, w = t / 32, l = t % 32;
    // No swizzle: core matrices of 8 rows by 16 bytes, one after the other along k.
    for (int e = t; e < 64 * 16; e += 128) { int r = e / 16, k = e % 16; B[(r / 8) * 128 + (k / 8) * 64 + (r % 8) * 8 + k % 8] = b[e]; }
    fence_proxy();
    unsigned f[4];
    for (int j = 0; j < 4; ++j) { int r = 16 * w + (j & 1) * 8 + l / 4, k = (j / 2) * 8 + 2 * (l % 4); f[j] = *(const unsigned*)&a[r * 16 + k]; }
    int m = l / 8, r = 16 * w + (m & 1) * 8 + l % 8;
    __half* to = &A[(r / 8) * 128 + (m / 2) * 64 + (r % 8) * 8];
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address(to)), "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]) : "memory");
    fence_proxy();
    __syncthreads();
    float d[32] = {};
    keep(d);
    fence_products();
    product_f16(d, descriptor(A, 128, 256, 0), descriptor(B, 128, 256, 0));
    commit_products();
    wait_products<0>();
    keep(d);
    write_tile(c, 64, d);
}
