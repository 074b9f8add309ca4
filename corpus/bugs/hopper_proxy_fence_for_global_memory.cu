// Hopper: threads write a tile in shared memory and a bulk copy stores it. The proxy fence is for global memory.
// warpsmith: --arch sm_90a --kernel twice --grid 1 --block 128 --shared 4096
// warpsmith: --arg ty=tensor,y[32,32]=plain --arg x=f32[64,32]=normal(1) --arg y=out,f32[64,32]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) twice(const __grid_constant__ TensorMap ty, const float* x, float* y)
{
    extern __shared__ __align__(128) float tile[];
    for (int round = 0; round < 2; ++round) {
        __syncthreads();
        for (int i = threadIdx.x; i < 1024; i += 128)
            tile[i] = 2 * x[1024 * round + i];
        fence_proxy_global();
        __syncthreads();
        if (threadIdx.x == 0) {
            store(&ty, 0, 32 * round, tile); //~ proxy-fence
            commit_stores();
            wait_stores_read<0>();
        }
    }
}
