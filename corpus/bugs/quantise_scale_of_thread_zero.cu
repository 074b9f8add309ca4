// E4M3 codes with a scale per head. Thread 0 stores the scale in shared memory, but all threads read it before the barrier.
// warpsmith: --arch sm_89 --kernel quantise --grid 3 --block 128 --shared 0
// warpsmith: --arg x=f16[3,256]=normal(3) --arg codes=out,e4m3[3,256] --arg scales=out,f32[3]

#include <cuda_fp16.h>

__device__ unsigned short encode(float first, float second)
{
    unsigned short codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(second), "f"(first));
    return codes;
}

extern "C" __global__ void quantise(const __half* x, unsigned short* codes, float* scales)
{
    __shared__ float partials[4], scale;
    const int t = threadIdx.x;
    const __half2 pair = reinterpret_cast<const __half2*>(x)[blockIdx.x * 128 + t];
    float m = fmaxf(fabsf(__low2float(pair)), fabsf(__high2float(pair)));
    for (int o = 16; o > 0; o /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    if (t % 32 == 0)
        partials[t / 32] = m;
    __syncthreads();
    if (t == 0) {
        m = fmaxf(fmaxf(partials[0], partials[1]), fmaxf(partials[2], partials[3]));
        scale = m <= 1e-6f ? 1.0f : m / 448.0f; //~ race
        scales[blockIdx.x] = scale;
    }
    const float s = scale; //~| race //~? uninitialised
    __syncthreads();
    codes[blockIdx.x * 128 + t] = encode(__low2float(pair) / s, __high2float(pair) / s); //~? uninitialised
}
