// Hopper: a copy uses a tensor map that the kernel has changed, without a fence of the tensor map's proxy.
// warpsmith: --arch sm_90a --kernel redirect --grid 1 --block 32 --shared 0
// warpsmith: --arg ta=tensor,a[8,32]=plain --arg a=f32[8,32]=normal(1) --arg b=f32[8,32]=normal(2)
// warpsmith: --arg maps=scratch,u64[16] --arg y=out,f32[8,32]

#include "../hopper.cuh"

// Copies b with the map of a, after its address was replaced.
extern "C" __global__ void __launch_bounds__(32) redirect(const __grid_constant__ TensorMap ta, const float* a, const float* b,
                                                          TensorMap* maps, float* y)
{
    __shared__ __align__(128) float tile[256];
    __shared__ __align__(128) TensorMap map;
    __shared__ u64 full;
    if (threadIdx.x < 16)
        map.words[threadIdx.x] = ta.words[threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) {
        replace_address(&map, b);
        init(&full, 1);
        fence_init();
    }
    __syncwarp();
    publish_map(maps, &map);
    if (threadIdx.x == 0) {
        expect(&full, 1024);
        load(tile, maps, 0, 0, &full); //~ proxy-fence
    }
    wait(&full, 0);
    for (int i = threadIdx.x; i < 256; i += 32)
        y[i] = tile[i];
}
