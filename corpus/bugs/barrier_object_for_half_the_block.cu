// cuda::barrier over the whole block, initialised for half of its threads: the first half to arrive continues before
// the other half has written.
// warpsmith: --arch sm_80 --kernel mirror --grid 2 --block 64 --shared 0
// warpsmith: --arg in=i32[2,64]=randint(34,0,1000) --arg out=out,i32[2,64]

#include <cuda/barrier>

#pragma nv_diag_suppress static_var_with_dynamic_init

extern "C" __global__ void mirror(const int* in, int* out)
{
    __shared__ int tile[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> filled;
    if (threadIdx.x == 0)
        init(&filled, 32);
    __syncthreads();
    tile[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x]; //~ race
    filled.arrive_and_wait(); //~? barrier-count
    out[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x]; //~| race //~? uninitialised
}
