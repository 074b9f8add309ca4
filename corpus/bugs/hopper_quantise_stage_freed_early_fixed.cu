// Hopper: E4M3 codes with a scale per head. A producer warp copies heads ahead into a ring of two stages. The consumer frees
// a stage after the codes, when it has read it for the last time.
// warpsmith: --arch sm_90a --kernel quantise --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f16[5,256]=normal(3) --arg codes=out,e4m3[5,256] --arg scales=out,f32[5] --arg heads=i32=5

#include <cuda_fp16.h>

#include "../hopper.cuh"

HOPPER void copy(void* to, const void* from, u32 bytes, u64* bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(address(to)), "l"(from), "r"(bytes), "r"(address(bar)) : "memory");
}

extern "C" __global__ void quantise(const __half* x, uint2* codes, float* scales, int heads)
{
    __shared__ __align__(128) uint4 stages[2][32];
    __shared__ u64 full[2], empty[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            init(&full[i], 1);
            init(&empty[i], 1);
        }
        fence_init();
    }
    __syncthreads();
    if (warp == 1) {
        if (lane != 0)
            return;
        for (int head = 0; head < heads; ++head) {
            const int stage = head % 2, parity = head / 2 % 2;
            wait(&empty[stage], parity ^ 1);
            expect(&full[stage], 512);
            copy(stages[stage], x + head * 256, 512, &full[stage]);
        }
        return;
    }
    for (int head = 0; head < heads; ++head) {
        const int stage = head % 2, parity = head / 2 % 2;
        wait(&full[stage], parity);
        const __half2* pairs = reinterpret_cast<const __half2*>(&stages[stage][lane]);
        float m = 0.0f;
        for (int i = 0; i < 4; ++i)
            m = fmaxf(m, fmaxf(fabsf(__low2float(pairs[i])), fabsf(__high2float(pairs[i]))));
        for (int o = 16; o > 0; o /= 2)
            m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
        const float scale = m <= 1e-6f ? 1.0f : m / 448.0f;
        unsigned short two[4];
        const volatile uint4* again = &stages[stage][lane];
        const u32 words[4] = {again->x, again->y, again->z, again->w};
        for (int i = 0; i < 4; ++i) {
            const __half2 pair = reinterpret_cast<const __half2&>(words[i]);
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
                : "=h"(two[i]) : "f"(__high2float(pair) / scale), "f"(__low2float(pair) / scale));
        }
        __syncwarp();
        if (lane == 0)
            arrive(&empty[stage]);
        codes[head * 32 + lane] = make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
        if (lane == 0)
            scales[head] = scale;
    }
}
