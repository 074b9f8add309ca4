// work_between_acquires. Does its work between loads with acquire order of a flag that it sets itself. Counted: only
// tests of mbarrier objects are left out.
// warpsmith: --arch sm_90a --grid 132 --block 32
// warpsmith: --arg x=f32[4224]=uniform(1) --arg out=out,f32[4224] --arg flags=inout,u32[4224]=zeros --arg times=i32=40
#include "work.cuh"

KERNEL cheat(const float* x, float* out, u32* flags, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    int done = 0;
    for (;;) {
        u32 flag;
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(flag) : "l"(flags + i) : "memory");
        if (flag) break;
        v = chain<64>(v);
        if (++done == times) asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(flags + i), "r"(1) : "memory");
    }
    out[i] = v;
}

KERNEL honest(const float* x, float* out, u32* flags, int times)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = work<64>(x[i], times);
    flags[i] = 1;
}
