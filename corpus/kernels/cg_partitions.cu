// cooperative_groups::labeled_partition and binary_partition: groups formed at run time from labels.
// Expected: per thread the size of its label group inside the warp, its rank there, and the sum over its parity
// group.
// warpsmith: --arch sm_80 --kernel partitions --grid 2 --block 32 --shared 0
// warpsmith: --arg label=i32[64]=randint(244,0,5) --arg size=out,i32[64] --arg rank=out,i32[64] --arg sum=out,i32[64]

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void partitions(const int* label, int* size, int* rank, int* sum)
{
    const int i = blockIdx.x * 32 + threadIdx.x, l = label[i];
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const auto peers = cg::labeled_partition(warp, l);
    size[i] = peers.size();
    rank[i] = peers.thread_rank();
    const auto parity = cg::binary_partition(warp, l & 1);
    sum[i] = cg::reduce(parity, l, cg::plus<int>());
}
