// Hopper: a ring of three stages. One thread of a producer warpgroup, which has released registers, fills it. Two
// warpgroups of 64 rows each empty it, with one product in flight while the next starts. Tensor copies store the
// result.
// warpsmith: --arch sm_90a --kernel ring --grid 2 --block 384 --shared 90112
// warpsmith: --arg ta=tensor,A[128,64]=swizzle(128) --arg tb=tensor,Bt[64,64]=swizzle(128) --arg tc=tensor,C[64,64]=plain
// warpsmith: --arg A=f16[256,512]=normal(1) --arg Bt=f16[64,512]=normal(2) --arg C=out,f16[256,64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

constexpr int STAGES = 3, STAGE = 16384 + 8192, STEPS = 8;

extern "C" __global__ void __launch_bounds__(384, 1) ring(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                          const __grid_constant__ TensorMap tc, const __half* a,
                                                          const __half* b, __half* c)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 full[STAGES], empty[STAGES];
    const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], 8);
        }
        fence_init();
    }
    __syncthreads();
    if (group == 2) {
        fewer_registers<40>();
        if (threadIdx.x == 256)
            for (int i = 0; i < STEPS; ++i) {
                const int s = i % STAGES;
                wait(&empty[s], i / STAGES % 2 ^ 1);
                expect(&full[s], STAGE);
                load(memory + STAGE * s, &ta, 64 * i, 128 * blockIdx.x, &full[s]);
                load(memory + STAGE * s + 16384, &tb, 64 * i, 0, &full[s]);
            }
        return;
    }
    more_registers<232>();
    float d[32] = {};
#pragma unroll 1
    for (int i = 0; i < STEPS; ++i) {
        const int s = i % STAGES;
        const unsigned char* stage = memory + STAGE * s;
        wait(&full[s], i / STAGES % 2);
        fence_products();
#pragma unroll
        for (int k = 0; k < 4; ++k)
            product_f16(d, descriptor(stage + 8192 * group + 32 * k), descriptor(stage + 16384 + 32 * k));
        commit_products();
        // The products of the previous step are complete, so its stage is free.
        wait_products<1>();
        if (lane == 0 && i > 0)
            arrive(&empty[(i - 1) % STAGES]);
    }
    wait_products<0>();
    keep(d);
    // A separate tile behind the ring, because the other warpgroup may still read the stages.
    __half* out = reinterpret_cast<__half*>(memory + STAGE * STAGES + 8192 * group);
    const int warp = threadIdx.x % 128 / 32;
    for (int j = 0; j < 8; ++j)
        for (int half = 0; half < 2; ++half) {
            const int row = 16 * warp + lane / 4 + 8 * half, column = 8 * j + 2 * (lane % 4);
            *reinterpret_cast<__half2*>(out + 64 * row + column) = __floats2half2_rn(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
        }
    fence_proxy();
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
    if (threadIdx.x % 128 == 0) {
        store(&tc, 0, 128 * blockIdx.x + 64 * group, out);
        commit_stores();
        wait_stores_read<0>();
    }
}
