// Tiles of 8 lanes by cooperative groups: float reduction by shuffles, exclusive scan, shfl and any/all votes per
// tile.
// Expected per group of 8: sum, exclusive prefix sums, and flags (bit 0 any negative, bit 1 all below 2).
// warpsmith: --arch sm_80 --kernel tiles8 --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[128]=normal(8) --arg sum=out,f32[16] --arg prefix=out,f32[128] --arg flags=out,i32[16]

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles8(const float* in, float* sum, float* prefix, int* flags)
{
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = in[i];
    prefix[i] = cg::exclusive_scan(tile, v, cg::plus<float>());
    const float s = cg::reduce(tile, v, cg::plus<float>());
    const int any = tile.any(v < 0.0f), all = tile.all(v < 2.0f);
    if (tile.thread_rank() == 7) {
        sum[i / 8] = s;
        flags[i / 8] = (any ? 1 : 0) | (all ? 2 : 0);
    }
}
