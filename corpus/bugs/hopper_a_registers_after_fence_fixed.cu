// The fixed twin of hopper_a_registers_after_fence.cu.
// warpsmith: --arch sm_90a --kernel tile --grid 1 --block 128 --shared 0
// warpsmith: --arg tb=tensor,b[64,64]=swizzle(128) --arg b=f16[64,64]=normal(2) --arg x=u32[512]=const(1006648320)
// warpsmith: --arg c=out,f32[64,64]

#include "../hopper.cuh"

// A is half of x, element by element.
extern "C" __global__ void __launch_bounds__(128) tile(const __grid_constant__ TensorMap tb, const void* b, const u32* x, float* c)
{
    __shared__ __align__(1024) unsigned char sb[8192];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 8192);
        load(sb, &tb, 0, 0, &full);
    }
    wait(&full, 0);
    float d[32] = {};
    keep(d);
    u32 a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        asm volatile("mul.rn.f16x2 %0, %1, %2;" : "=r"(a[i]) : "r"(x[4 * threadIdx.x + i]), "r"(0x38003800u) : "memory");
    fence_products();
    product_registers_f16(d, a, descriptor(sb));
    commit_products();
    wait_products<0>();
    keep(d);
    write_tile(c, 64, d);
}
