// The fixed twin of cluster_rank_past_the_end.cu.
// warpsmith: --arch sm_90 --kernel next --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg out=out,f32[128]

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) next(const float* x, float* out)
{
    __shared__ float mine[32];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = x[32 * blockIdx.x + threadIdx.x];
    cluster.sync();
    const unsigned rank = (cluster.block_rank() + 1) % 4;
    out[32 * blockIdx.x + threadIdx.x] = *cluster.map_shared_rank(&mine[threadIdx.x], rank);
    cluster.sync();
}
