// Hopper: in every warp, odd lanes arrive at an mbarrier object and even lanes wait for it. Lanes of a warp that have
// diverged make progress independently.
// warpsmith: --arch sm_90a --kernel lanes --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=randint(5,0,99) --arg y=out,i32[64]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void lanes(const int* x, int* y)
{
    __shared__ u64 ready;
    __shared__ int given[64];
    const int t = threadIdx.x;
    if (t == 0)
        init(&ready, 32);
    __syncthreads();
    if (t % 2 == 1) {
        given[t] = x[t];
        arrive(&ready);
        y[t] = x[t];
    } else {
        wait(&ready, 0);
        y[t] = x[t] + given[63 - t];
    }
}
