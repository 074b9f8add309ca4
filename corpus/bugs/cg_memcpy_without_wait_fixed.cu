// cooperative_groups::memcpy_async followed by cg::wait.
// warpsmith: --arch sm_80 --kernel squares --grid 2 --block 64 --shared 0
// warpsmith: --arg in=i32[2,64]=iota --arg out=out,i32[2,64]

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

extern "C" __global__ void squares(const int* in, int* out)
{
    __shared__ __align__(16) int tile[64];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, in + blockIdx.x * 64, sizeof(tile));
    cg::wait(block);
    const int v = tile[63 - threadIdx.x];
    out[blockIdx.x * 64 + threadIdx.x] = v * v;
}
