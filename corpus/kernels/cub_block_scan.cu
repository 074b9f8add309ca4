// CUB BlockScan: exclusive sum of four items per thread with the block total, then an inclusive running maximum.
// Expected per block of 512: exclusive prefix sums, running maxima, and the total.
// warpsmith: --arch sm_80 --kernel block_scan --grid 2 --block 128 --shared 0
// warpsmith: --arg in=i32[1024]=randint(7,-100,100) --arg sums=out,i32[1024] --arg maxima=out,i32[1024]
// warpsmith: --arg total=out,i32[2]

#include <cub/block/block_scan.cuh>

struct Max {
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};

extern "C" __global__ void block_scan(const int* in, int* sums, int* maxima, int* total)
{
    using Scan = cub::BlockScan<int, 128, cub::BLOCK_SCAN_RAKING>;
    using MaxScan = cub::BlockScan<int, 128, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename MaxScan::TempStorage max_scan;
    } temp;
    const int base = blockIdx.x * 512 + threadIdx.x * 4;
    int v[4], s[4], m[4], all;
    for (int k = 0; k < 4; ++k)
        v[k] = in[base + k];
    Scan(temp.scan).ExclusiveSum(v, s, all);
    __syncthreads();
    MaxScan(temp.max_scan).InclusiveScan(v, m, Max());
    for (int k = 0; k < 4; ++k) {
        sums[base + k] = s[k];
        maxima[base + k] = m[k];
    }
    if (threadIdx.x == 0)
        total[blockIdx.x] = all;
}
