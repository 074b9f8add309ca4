// Largest absolute value of each head, over blocks that take parts of it. Every block compares with the maximum so far and
// stores a larger one: two blocks can do that at the same time, and the smaller value can be the last one stored.
// warpsmith: --arch sm_80 --kernel absmax --grid 4,3 --block 64 --shared 0
// warpsmith: --arg x=f16[3,4,512]=normal(3) --arg largest=inout,f32[3]=zeros

#include <cuda_fp16.h>

extern "C" __global__ void absmax(const __half* x, float* largest)
{
    __shared__ float partials[2];
    const int t = threadIdx.x, head = blockIdx.y, part = head * gridDim.x + blockIdx.x;
    const uint4 loaded = reinterpret_cast<const uint4*>(x)[part * 64 + t];
    const __half2* pairs = reinterpret_cast<const __half2*>(&loaded);
    float m = 0.0f;
    for (int i = 0; i < 4; ++i)
        m = fmaxf(m, fmaxf(fabsf(__low2float(pairs[i])), fabsf(__high2float(pairs[i]))));
    for (int o = 16; o > 0; o /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    if (t % 32 == 0)
        partials[t / 32] = m;
    __syncthreads();
    if (t == 0) {
        m = fmaxf(partials[0], partials[1]);
        if (m > largest[head]) //~ race
            largest[head] = m; //~| race
    }
}
