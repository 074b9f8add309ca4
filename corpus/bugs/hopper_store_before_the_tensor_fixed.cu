// The fixed twin of hopper_store_before_the_tensor.cu: rows behind the tensor are skipped.
// warpsmith: --arch sm_90a --kernel moved --grid 1 --block 128 --shared 4096
// warpsmith: --arg ty=tensor,y[32,32]=plain --arg x=f32[32,32]=normal(1) --arg y=inout,f32[64,32]=zeros

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) moved(const __grid_constant__ TensorMap ty, const float* x, float* y)
{
    extern __shared__ __align__(128) float tile[];
    for (int i = threadIdx.x; i < 1024; i += 128)
        tile[i] = 2 * x[i];
    fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
        store(&ty, 0, 40, tile);
        commit_stores();
        wait_stores<0>();
    }
}
