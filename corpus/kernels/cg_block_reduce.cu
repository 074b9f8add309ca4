// Sum and minimum by cooperative groups: reduce over 32-lane tiles, tile results through shared memory.
// Expected: total[b] = the sum, smallest[b] = the minimum of the block's 200 elements.
// warpsmith: --arch sm_80 --kernel cg_reduce --grid 3 --block 96 --shared 0
// warpsmith: --arg in=i32[600]=randint(5,-9000,9000) --arg total=out,i32[3] --arg smallest=out,i32[3]

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void cg_reduce(const int* in, int* total, int* smallest)
{
    __shared__ int sums[3], mins[3];
    const cg::thread_block block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<32>(block);

    int sum = 0, least = 0x7fffffff;
    for (int i = block.thread_rank(); i < 200; i += block.size()) {
        const int v = in[block.group_index().x * 200 + i];
        sum += v;
        least = min(least, v);
    }
    sum = cg::reduce(tile, sum, cg::plus<int>());
    least = cg::reduce(tile, least, cg::less<int>());
    if (tile.thread_rank() == 0) {
        sums[tile.meta_group_rank()] = sum;
        mins[tile.meta_group_rank()] = least;
    }
    block.sync();
    if (block.thread_rank() == 0) {
        total[blockIdx.x] = sums[0] + sums[1] + sums[2];
        smallest[blockIdx.x] = min(mins[0], min(mins[1], mins[2]));
    }
}
