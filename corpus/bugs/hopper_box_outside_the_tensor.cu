// Hopper: the coordinates of a tensor copy are exchanged, so its whole box is outside the tensor.
// warpsmith: --arch sm_90a --kernel second_tile --grid 1 --block 32 --shared 0
// warpsmith: --arg ta=tensor,a[8,32]=plain --arg a=f32[64,32]=normal(1) --arg y=out,f32[8,32]

#include "../hopper.cuh"

// Copies rows 32 to 39.
extern "C" __global__ void __launch_bounds__(32) second_tile(const __grid_constant__ TensorMap ta, const float* a, float* y)
{
    __shared__ __align__(128) float tile[256];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        init(&full, 1);
        fence_init();
        expect(&full, 1024);
        load(tile, &ta, 32, 0, &full); //~ out-of-bounds
    }
    __syncwarp();
    wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += 32)
        y[i] = tile[i];
}
