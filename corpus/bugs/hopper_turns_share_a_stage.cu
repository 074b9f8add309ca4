// Hopper: the uses of a stage go to different warps. A warp may wait for a phase while the phase before it is under way.
// warpsmith: --arch sm_90a --kernel sums --grid 1 --block 96
// warpsmith: --arg x=f32[16,128]=normal(1) --arg y=out,f32[16]

#include "../hopper.cuh"

// One thread copies rows into a ring of three stages, and two warps take turns to add them up.
extern "C" __global__ void __launch_bounds__(96) sums(const float* x, float* y)
{
    constexpr int STAGES = 3;
    __shared__ __align__(128) float ring[STAGES][128];
    __shared__ u64 full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], 1);
        }
        fence_init();
    }
    __syncthreads();
    if (warp == 2) {
        if (lane == 0)
            for (int i = 0; i < 16; ++i) {
                wait(&empty[i % STAGES], i / STAGES % 2 ^ 1); //~? deadlock //~? barrier-phase
                expect(&full[i % STAGES], 512); //~? barrier-count
                load_bytes(ring[i % STAGES], x + 128 * i, 512, &full[i % STAGES]); //~? async-not-waited //~? race
            }
        return;
    }
    for (int i = warp; i < 16; i += 2) {
        wait(&full[i % STAGES], i / STAGES % 2); //~ barrier-phase //~? deadlock
        float sum = 0;
        for (int j = lane; j < 128; j += 32)
            sum += ring[i % STAGES][j]; //~? async-not-waited //~? race //~? uninitialised
        for (int o = 16; o > 0; o /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        __syncwarp();
        if (lane == 0) {
            y[i] = sum;
            arrive(&empty[i % STAGES]); //~? barrier-count
        }
    }
}
