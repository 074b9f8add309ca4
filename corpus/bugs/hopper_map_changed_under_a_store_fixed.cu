// The fixed twin of hopper_map_changed_under_a_store.cu.
// warpsmith: --arch sm_90a --kernel store_twice --grid 1 --block 32 --shared 0
// warpsmith: --arg ta=tensor,a[8,32]=plain --arg a=out,f32[8,32] --arg b=out,f32[8,32] --arg maps=scratch,u64[16]

#include "../hopper.cuh"

// Stores a tile to a and to b, with one tensor map in global memory.
extern "C" __global__ void __launch_bounds__(32) store_twice(const __grid_constant__ TensorMap ta, float* a, float* b, TensorMap* maps)
{
    __shared__ __align__(128) float tile[256];
    __shared__ __align__(128) TensorMap map;
    for (int i = threadIdx.x; i < 256; i += 32)
        tile[i] = i;
    if (threadIdx.x < 16)
        map.words[threadIdx.x] = ta.words[threadIdx.x];
    fence_proxy();
    __syncwarp();
    for (int turn = 0; turn < 2; ++turn) {
        if (threadIdx.x == 0)
            replace_address(&map, turn == 0 ? a : b);
        __syncwarp();
        publish_map(maps, &map);
        acquire_map(maps);
        if (threadIdx.x == 0) {
            store(maps, 0, 0, tile);
            commit_stores();
            wait_stores_read<0>();
        }
        __syncwarp();
    }
    wait_stores<0>();
}
