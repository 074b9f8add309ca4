// Tiles copied with cp.async belong to the generic proxy: products need a proxy fence after the wait.
// warpsmith: --arch sm_90a --kernel multiply --grid 1 --block 128 --shared 0
// warpsmith: --arg a=f16[64,16]=normal(1) --arg b=f16[64,16]=normal(2) --arg c=inout,f32[64,64]=zeros
#include "../hopper.cuh"
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(128) multiply(const __half* a, const __half* b, float* c) {
    __shared__ __align__(1024) __half A[64 * 16], B[64 * 16];
    int t = threadIdx.x;
    int r = t / 2, h = t % 2, at = (r / 8) * 128 + h * 64 + (r % 8) * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(A + at)), "l"(a + r * 16 + h * 8) : "memory");
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(B + at)), "l"(b + r * 16 + h * 8) : "memory");
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
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
