// Hopper: the weights of the next step are made while the product that reads those of this step is in flight: the wait
// leaves one group, as if there were two sets of registers.
// warpsmith: --arch sm_90a --kernel tile --grid 1 --block 128 --shared 16384
// warpsmith: --arg tb=tensor,b[64,64]=swizzle(128) --arg b=f16[64,64]=normal(2) --arg x=u32[2048]=const(1006648320)
// warpsmith: --arg c=out,f32[64,64]

#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) tile(const __grid_constant__ TensorMap tb, const void* b, const u32* x, float* c)
{
    extern __shared__ __align__(1024) unsigned char sb[];
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
    u32 a[4] = {};
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
        wait_products<0>();
#pragma unroll
        for (int i = 0; i < 4; ++i)
            asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(a[i]) : "r"(x[512 * k + 4 * threadIdx.x + i]), "r"(0x38003800u) : "memory");
        fence_products();
        product_registers_f16(d, a, descriptor(sb + 32 * k));
        commit_products();
    }
    wait_products<0>();
    keep(d);
    write_tile(c, 64, d);
}
