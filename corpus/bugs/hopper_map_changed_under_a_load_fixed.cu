// Hopper: the tensor map is replaced while a load that was issued with it may still be reading it.
// warpsmith: --arch sm_90a --kernel load_two --grid 1 --block 32 --shared 0
// warpsmith: --arg ta=tensor,a[8,32]=plain --arg a=f32[8,32]=normal(2) --arg b=f32[8,32]=normal(3) --arg maps=scratch,u64[16]
// warpsmith: --arg y=out,f32[2,256]

#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(32) load_two(const __grid_constant__ TensorMap ta, const float* a, const float* b,
                                                          TensorMap* maps, float* y)
{
    __shared__ __align__(128) float tile[2][256];
    __shared__ __align__(128) TensorMap map;
    __shared__ u64 full[2];
    if (threadIdx.x == 0) {
        init(&full[0], 1);
        init(&full[1], 1);
        fence_init();
    }
    if (threadIdx.x < 16) map.words[threadIdx.x] = ta.words[threadIdx.x];
    __syncwarp();
    for (int turn = 0; turn < 2; ++turn) {
        if (threadIdx.x == 0) replace_address(&map, turn == 0 ? a : b);
        __syncwarp();
        publish_map(maps, &map);
        acquire_map(maps);
        if (threadIdx.x == 0) {
            expect(&full[turn], 1024);
            load(tile[turn], maps, 0, 0, &full[turn]);
        }
        __syncwarp();
        wait(&full[turn], 0);
    }
    for (int turn = 0; turn < 2; ++turn) {
        wait(&full[turn], 0);
        for (int i = threadIdx.x; i < 256; i += 32) y[256 * turn + i] = tile[turn][i];
    }
}
