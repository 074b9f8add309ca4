// A producer warp passes two stages to a consumer warp with cuda::barrier. The producer arrives at `empty` but does not
// wait until the stage is free. It runs ahead, the phases no longer match, and the consumer waits for ever.
// warpsmith: --arch sm_80 --kernel stages --grid 1 --block 64 --shared 0
// warpsmith: --arg in=i32[8,32]=randint(31,0,1000) --arg out=out,i32[8,32] --arg tiles=i32=8

#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init

extern "C" __global__ void stages(const int* in, int* out, int tiles)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ int stage[2][32];
    __shared__ barrier full[2], empty[2];
    if (threadIdx.x < 2) {
        init(&full[threadIdx.x], 64);
        init(&empty[threadIdx.x], 64);
    }
    __syncthreads();

    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int t = 0; t < tiles; ++t) {
            if (t >= 2)
                (void)empty[t % 2].arrive(); //~? barrier-count
            stage[t % 2][lane] = in[t * 32 + lane] + 1; //~? race
            (void)full[t % 2].arrive();
        }
    } else {
        for (int t = 0; t < tiles; ++t) {
            full[t % 2].arrive_and_wait(); //~ deadlock //~? barrier-count
            out[t * 32 + lane] = stage[t % 2][31 - lane]; //~? race
            if (t + 2 < tiles)
                (void)empty[t % 2].arrive();
        }
    }
}
