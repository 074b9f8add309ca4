// Hopper: each round initialises the same mbarrier object, which is still valid. It should wait for the other parity.
// warpsmith: --arch sm_90a --kernel reverse --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg y=out,f32[256]

#include "../hopper.cuh"

// Reverses each half of x.
extern "C" __global__ void __launch_bounds__(128) reverse(const float* x, float* y)
{
    __shared__ __align__(128) float tile[128];
    __shared__ u64 full;
    for (int round = 0; round < 2; ++round) {
        if (threadIdx.x == 0) {
            init(&full, 1); //~ race
            fence_init();
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            expect(&full, 512);
            load_bytes(tile, x + 128 * round, 512, &full);
        }
        wait(&full, 0);
        y[128 * round + threadIdx.x] = tile[127 - threadIdx.x];
        __syncthreads();
    }
}
