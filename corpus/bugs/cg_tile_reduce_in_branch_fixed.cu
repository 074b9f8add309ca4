// cooperative_groups::reduce over a 16-lane tile by the whole tile.
// warpsmith: --arch sm_80 --kernel positive_sums --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[64]=normal(3) --arg sums=inout,f32[4]=zeros --arg doubled=out,f32[64]

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void positive_sums(const float* x, float* sums, float* doubled)
{
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const float v = x[threadIdx.x];
    const float s = cg::reduce(tile, v > 0.0f ? v : 0.0f, cg::plus<float>());
    if (tile.thread_rank() == 0)
        sums[threadIdx.x / 16] = s;
    doubled[threadIdx.x] = v * 2.0f;
}
