// Hopper: the producer waits for the parity of the previous round, so it does not wait at all.
// warpsmith: --arch sm_90a --kernel ring --grid 1 --block 160 --shared 32768
// warpsmith: --arg ta=tensor,a[64,64]=swizzle(128) --arg tb=tensor,b[64,64]=swizzle(128) --arg a=f16[64,384]=normal(1)
// warpsmith: --arg b=f16[64,384]=normal(2) --arg c=out,f32[64,64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

// One warp copies tiles into a ring of two stages, and a warpgroup multiplies them.
extern "C" __global__ void __launch_bounds__(160) ring(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                       const __half* a, const __half* b, float* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full[2], empty[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            init(&full[s], 1);
            init(&empty[s], 4);
        }
        fence_init();
    }
    __syncthreads();
    if (warp == 4) {
        if (lane == 0)
            for (int i = 0; i < 6; ++i) {
                unsigned char* stage = memory + 16384 * (i % 2);
                wait(&empty[i % 2], 1); //~? barrier-phase //~? deadlock
                expect(&full[i % 2], 16384); //~? barrier-count
                load(stage, &ta, 64 * i, 0, &full[i % 2]); //~ async-not-waited //~| race
                load(stage + 8192, &tb, 64 * i, 0, &full[i % 2]); //~ async-not-waited //~| race
            }
        return;
    }
    float d[32] = {};
    for (int i = 0; i < 6; ++i) {
        unsigned char* stage = memory + 16384 * (i % 2);
        wait(&full[i % 2], i / 2 % 2); //~? deadlock //~? barrier-phase
        fence_products();
        for (int k = 0; k < 4; ++k)
            product_f16(d, descriptor(stage + 32 * k), descriptor(stage + 8192 + 32 * k)); //~? async-not-waited //~? race
        commit_products();
        wait_products<0>();
        if (lane == 0)
            arrive(&empty[i % 2]); //~? barrier-count
    }
    wait_products<0>();
    keep(d);
    write_tile(c, 64, d);
}
