// released_registers. Releases registers and announces its end to the next grid before it works. Neither makes its own
// work shorter.
// warpsmith: --arch sm_90a --grid 132 --block 128
// warpsmith: --arg x=f32[16896]=uniform(1) --arg out=out,f32[16896] --arg times=i32=20
#include "work.cuh"

extern "C" __global__ __launch_bounds__(128, 1) void cheat(const float* x, float* out, int times)
{
    fewer_registers<40>();
    asm volatile("griddepcontrol.launch_dependents;");
    const int i = blockIdx.x * 128 + threadIdx.x;
    out[i] = work<64>(x[i], times);
}

KERNEL honest(const float* x, float* out, int times)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    out[i] = work<64>(x[i], times);
}
