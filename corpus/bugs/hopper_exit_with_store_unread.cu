// Hopper: the thread exits while its bulk copy may still be reading the shared memory of the block.
// warpsmith: --arch sm_90a --kernel twice --grid 1 --block 128 --shared 8192
// warpsmith: --arg ty=tensor,y[32,32]=plain --arg x=f32[64,32]=normal(1) --arg y=out,f32[64,32]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) twice(const __grid_constant__ TensorMap ty, const float* x, float* y)
{
    extern __shared__ __align__(128) float tile[];
    for (int i = threadIdx.x; i < 2048; i += 128)
        tile[i] = 2 * x[i];
    fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int round = 0; round < 2; ++round)
            store(&ty, 0, 32 * round, tile + 1024 * round); //~ async-not-waited
        commit_stores();
    }
}
