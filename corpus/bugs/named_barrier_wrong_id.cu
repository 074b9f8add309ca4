// Ping-pong of two consumer groups over two named barriers. The producer signals barrier 1 for both slots, so the
// second group waits on barrier 2 for an arrival that never comes.
// warpsmith: --arch sm_80 --kernel two_slots --grid 1 --block 96 --shared 0
// warpsmith: --arg in=f32[64]=normal(3) --arg out=out,f32[64]

extern "C" __global__ void two_slots(const float* in, float* out)
{
    __shared__ float slot[2][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        for (int s = 0; s < 2; ++s) {
            slot[s][lane] = in[s * 32 + lane]; //~? race
            asm volatile("bar.arrive 1, 64;" ::: "memory"); //~? barrier-count
        }
    } else {
        asm volatile("bar.sync %0, 64;" ::"r"(warp) : "memory"); //~ deadlock
        out[(warp - 1) * 32 + lane] = slot[warp - 1][31 - lane]; //~? race
    }
}
