// The fixed twin of hopper_load_at_odd_column.cu.
// warpsmith: --arch sm_90a --kernel shifted --grid 1 --block 128 --shared 4096
// warpsmith: --arg tx=tensor,x[32,32]=plain --arg x=f32[64,64]=normal(1) --arg y=out,f32[32,32]

#include <cuda_fp16.h>
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128) shifted(const __grid_constant__ TensorMap tx, const float* x, float* y)
{
    extern __shared__ __align__(128) float tile[];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&full, 4096);
        load(tile, &tx, 4, 0, &full);
    }
    wait(&full, 0);
    for (int i = threadIdx.x; i < 1024; i += 128)
        y[i] = tile[i];
}
