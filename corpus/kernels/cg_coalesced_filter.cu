// Filter with one atomic per warp: the lanes that keep their element form a coalesced group inside the branch.
// Expected: kept holds, in any order, the positive elements; count[0] is their number.
// warpsmith: --arch sm_80 --kernel filter --grid 3 --block 96 --shared 0
// warpsmith: --arg in=i32[700]=randint(6,-50,50) --arg kept=inout,i32[700]=zeros --arg count=inout,i32[1]=zeros
// warpsmith: --arg n=i32=700

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ int take(int* counter)
{
    const cg::coalesced_group active = cg::coalesced_threads();
    int base = 0;
    if (active.thread_rank() == 0)
        base = atomicAdd(counter, (int)active.size());
    return active.shfl(base, 0) + active.thread_rank();
}

extern "C" __global__ void filter(const int* in, int* kept, int* count, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int v = in[i];
        if (v > 0)
            kept[take(count)] = v;
    }
}
