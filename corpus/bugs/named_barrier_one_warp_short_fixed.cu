// A producer warp and three consumer warps wait at named barriers that count exactly the 128 threads that arrive.
// warpsmith: --arch sm_80 --kernel relay --grid 2 --block 128 --shared 0
// warpsmith: --arg in=f32[2,4,96]=normal(3) --arg out=out,f32[2,4,96]

constexpr int PARTIES = 128;

__device__ __forceinline__ void bar_sync(int id)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(PARTIES) : "memory");
}

__device__ __forceinline__ void bar_arrive(int id)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(PARTIES) : "memory");
}

extern "C" __global__ void relay(const float* in, float* out)
{
    __shared__ float buf[96];
    const int t = threadIdx.x, base = blockIdx.x * 4 * 96;
    if (t < 32) {
        for (int k = 0; k < 4; ++k) {
            bar_sync(2); // empty
            for (int i = t; i < 96; i += 32)
                buf[i] = in[base + k * 96 + i];
            bar_arrive(1); // full
        }
    } else {
        bar_arrive(2);
        for (int k = 0; k < 4; ++k) {
            bar_sync(1);
            const int i = t - 32;
            out[base + k * 96 + i] = 2.0f * buf[95 - i];
            if (k < 3)
                bar_arrive(2);
        }
    }
}
