// Every thread waits for its own copies and then reads cells that copies of other threads fill. The wait covers only
// the thread's own copies, and the barrier is missing.
// warpsmith: --arch sm_80 --kernel reverse_tiles --grid 2 --block 128 --shared 0
// warpsmith: --arg in=i32[2,512]=iota --arg out=out,i32[2,512]

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void reverse_tiles(const int* in, int* out)
{
    __shared__ __align__(16) int tile[512];
    const int t = threadIdx.x, base = blockIdx.x * 512;
    __pipeline_memcpy_async(tile + t * 4, in + base + t * 4, 16); //~ race
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int k = 0; k < 4; ++k)
        out[base + k * 128 + t] = tile[511 - (k * 128 + t)]; //~| race //~| async-not-waited //~? uninitialised
}
