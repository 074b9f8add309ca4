// The rank of the peer is computed from the block's number in the grid: right in the first cluster only.
// warpsmith: --arch sm_90a --kernel swap --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(1) --arg y=out,f32[128]
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) swap(const float* x, float* y) {
    __shared__ float own[32];
    cg::cluster_group cluster = cg::this_cluster();
    own[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    cluster.sync();
    float* peer = cluster.map_shared_rank(own, blockIdx.x ^ 1); //~ out-of-bounds
    y[blockIdx.x * 32 + threadIdx.x] = peer[threadIdx.x]; //~| out-of-bounds
    cluster.sync();
}
