// Hopper: a tile counts as full when one of its two producers has arrived.
// warpsmith: --arch sm_90a --kernel ring --grid 1 --block 96 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg y=out,f32[256]

#include "../hopper.cuh"

// Two warps copy halves of a tile, and a third adds 1 to it. A ring has two tiles.
extern "C" __global__ void __launch_bounds__(96) ring(const float* x, float* y) //~? unwritten-output
{
    __shared__ float tile[2][64];
    __shared__ u64 v_full[2], v_free[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < 2; ++stage) {
            init(&v_full[stage], 1);
            init(&v_free[stage], 1);
        }
        fence_init();
    }
    __syncthreads();
    for (int step = 0; step < 4; ++step) {
        const int stage = step % 2, parity = step / 2 % 2;
        if (warp < 2) {
            wait(&v_free[stage], parity ^ 1); //~? deadlock
            tile[stage][32 * warp + lane] = x[64 * step + 32 * warp + lane]; //~? race
            __syncwarp();
            if (lane == 0)
                arrive(&v_full[stage]); //~ barrier-count
        } else {
            wait(&v_full[stage], parity); //~? deadlock //~? barrier-phase
            y[64 * step + lane] = tile[stage][lane] + 1; //~? race
            y[64 * step + 32 + lane] = tile[stage][32 + lane] + 1; //~? race
            __syncwarp();
            if (lane == 0)
                arrive(&v_free[stage]);
        }
    }
}
