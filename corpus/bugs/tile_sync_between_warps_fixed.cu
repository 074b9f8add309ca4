// Warps exchange data after the sync of the whole block.
// warpsmith: --arch sm_80 --kernel reverse --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[64]=normal(1) --arg y=out,f32[64]

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void reverse(const float* x, float* y)
{
    __shared__ float s[64];
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<32>(block);
    const int t = block.thread_rank();
    s[t] = x[t];
    block.sync();
    y[t] = s[63 - t] + tile.size();
}
