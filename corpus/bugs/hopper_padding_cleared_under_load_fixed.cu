// Hopper: the rows of a stage beyond the data are cleared by threads in each round, and the next round's load overwrites
// them without a proxy fence.
// warpsmith: --arch sm_90a --kernel rounds --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg y=out,f32[128]

#include "../hopper.cuh"

extern "C" __global__ void rounds(const float* x, float* y)
{
    __shared__ __align__(128) float tile[64];
    __shared__ u64 full;
    const int t = threadIdx.x;
    if (t == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    for (int round = 0; round < 2; ++round) {
        if (t == 0) {
            expect(&full, 256);
            load_bytes(tile, x + 64 * round, 256, &full);
        }
        wait(&full, round);
        if (t >= 48) tile[t] = 0;
        fence_proxy();
        __syncthreads();
        y[64 * round + t] = tile[63 - t];
        __syncthreads();
    }
}
