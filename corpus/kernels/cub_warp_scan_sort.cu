// CUB WarpScan, WarpReduce and WarpMergeSort, two warps per block, with storage per warp.
// Expected per warp of 32: inclusive sums, the maximum, and the elements in ascending order.
// warpsmith: --arch sm_80 --kernel warp_ops --grid 2 --block 64 --shared 0
// warpsmith: --arg in=u32[128]=randint(72,0,1000) --arg sums=out,u32[128] --arg top=out,u32[4]
// warpsmith: --arg sorted=out,u32[128]

#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

struct Less {
    __device__ bool operator()(unsigned a, unsigned b) const { return a < b; }
};
struct Max {
    __device__ unsigned operator()(unsigned a, unsigned b) const { return a > b ? a : b; }
};

extern "C" __global__ void warp_ops(const unsigned* in, unsigned* sums, unsigned* top, unsigned* sorted)
{
    using Scan = cub::WarpScan<unsigned>;
    using Reduce = cub::WarpReduce<unsigned>;
    using Sort = cub::WarpMergeSort<unsigned, 1, 32>;
    __shared__ typename Scan::TempStorage scan_temp[2];
    __shared__ typename Reduce::TempStorage reduce_temp[2];
    __shared__ typename Sort::TempStorage sort_temp[2];

    const int i = blockIdx.x * 64 + threadIdx.x, warp = threadIdx.x / 32;
    const unsigned v = in[i];
    unsigned s;
    Scan(scan_temp[warp]).InclusiveSum(v, s);
    sums[i] = s;
    const unsigned m = Reduce(reduce_temp[warp]).Reduce(v, Max());
    if (threadIdx.x % 32 == 0)
        top[i / 32] = m;
    unsigned keys[1] = {v};
    Sort(sort_temp[warp]).Sort(keys, Less());
    sorted[i] = keys[0];
}
