// A producer fills two slots and arrives for each at the same barrier. It waits until the consumer has taken the first.
// warpsmith: --arch sm_80 --kernel slots --grid 1 --block 64 --shared 0
// warpsmith: --arg in=f32[64]=normal(3) --arg out=out,f32[64]

extern "C" __global__ void slots(const float* in, float* out)
{
    __shared__ float slot[2][32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int s = 0; s < 2; ++s) {
            slot[s][lane] = in[s * 32 + lane];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            if (s == 0)
                asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    } else {
        for (int s = 0; s < 2; ++s) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[s * 32 + lane] = slot[s][31 - lane];
            if (s == 0)
                asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}
