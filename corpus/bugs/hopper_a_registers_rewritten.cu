// Hopper: the registers of A are filled for the next step while the product that reads them is in flight.
// warpsmith: --arch sm_90a --kernel tile --grid 1 --block 128 --shared 16384
// warpsmith: --arg ta=tensor,a[64,64]=swizzle(128) --arg tb=tensor,b[64,64]=swizzle(128) --arg a=f16[64,64]=normal(1)
// warpsmith: --arg b=f16[64,64]=normal(2) --arg c=out,f32[64,64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) tile(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                       const __half* a, const __half* b, float* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full;
    unsigned char *sa = memory, *sb = memory + 8192;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 16384);
        load(sa, &ta, 0, 0, &full);
        load(sb, &tb, 0, 0, &full);
    }
    wait(&full, 0);
    float d[32] = {};
    u32 p[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
    for (int i = 0; i < 4; ++i)
        p[i] += threadIdx.x;
    fence_products();
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
        product_registers_f16(d, p, descriptor(sb + 32 * k));
        commit_products();
        for (int i = 0; i < 4; ++i)
            asm volatile("add.u32 %0, %0, 1;" : "+r"(p[i])); //~ async-not-waited
        fence_products();
    }
    wait_products<0>();
    keep(d);
    write_tile(c, 64, d);
}
