// Hopper: a ring of two stages. A group of products belongs to the warpgroup, so one thread of it, here lane 7 of warp 2,
// releases the stage for all four warps after its wait, as CUTLASS does.
// warpsmith: --arch sm_90a --kernel ring --grid 1 --block 160 --shared 32768
// warpsmith: --arg ta=tensor,A[64,64]=swizzle(128) --arg tb=tensor,Bt[64,64]=swizzle(128) --arg A=f16[64,384]=normal(1)
// warpsmith: --arg Bt=f16[64,384]=normal(2) --arg C=out,f32[64,64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(160) ring(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                       const __half* a, const __half* b, float* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full[2], empty[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            init(&full[s], 1);
            init(&empty[s], 1);
        }
        fence_init();
    }
    __syncthreads();
    if (warp == 4) {
        if (lane == 0)
            for (int i = 0; i < 6; ++i) {
                unsigned char* stage = memory + 16384 * (i % 2);
                wait(&empty[i % 2], i / 2 % 2 ^ 1);
                expect(&full[i % 2], 16384);
                load(stage, &ta, 64 * i, 0, &full[i % 2]);
                load(stage + 8192, &tb, 64 * i, 0, &full[i % 2]);
            }
        return;
    }
    float d[32] = {};
    for (int i = 0; i < 6; ++i) {
        unsigned char* stage = memory + 16384 * (i % 2);
        wait(&full[i % 2], i / 2 % 2);
        fence_products();
        for (int k = 0; k < 4; ++k)
            product_f16(d, descriptor(stage + 32 * k), descriptor(stage + 8192 + 32 * k));
        commit_products();
        wait_products<0>();
        if (warp == 2 && lane == 7)
            arrive(&empty[i % 2]);
    }
    keep(d);
    write_tile(c, 64, d);
}
