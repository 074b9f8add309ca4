// The fixed twin of hopper_barrier_initialised_again.cu.
// warpsmith: --arch sm_90a --kernel reverse --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg y=out,f32[256]

#include "../hopper.cuh"

// Reverses each half of x.
extern "C" __global__ void __launch_bounds__(128) reverse(const float* x, float* y)
{
    __shared__ __align__(128) float tile[128];
    __shared__ u64 full;
    for (int round = 0; round < 2; ++round) {
        if (round == 0 && threadIdx.x == 0) {
            init(&full, 1);
            fence_init();
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            expect(&full, 512);
            load_bytes(tile, x + 128 * round, 512, &full);
        }
        wait(&full, round);
        y[128 * round + threadIdx.x] = tile[127 - threadIdx.x];
        __syncthreads();
    }
}
