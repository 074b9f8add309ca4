// cooperative_groups::memcpy_async by the block and cg::wait, with a size that is not a multiple of the block size.
// Expected: out = in reversed within each block's 50 elements.
// warpsmith: --arch sm_80 --kernel reverse50 --grid 3 --block 32 --shared 0
// warpsmith: --arg in=i32[150]=iota --arg out=out,i32[150]

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

extern "C" __global__ void reverse50(const int* in, int* out)
{
    __shared__ int tile[50];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, in + blockIdx.x * 50, sizeof(tile));
    cg::wait(block);
    for (int i = threadIdx.x; i < 50; i += 32)
        out[blockIdx.x * 50 + i] = tile[49 - i];
}
