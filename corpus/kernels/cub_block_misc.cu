// Several CUB primitives: BlockDiscontinuity heads, BlockAdjacentDifference, BlockHistogram, BlockMergeSort and
// BlockShuffle.
// Expected per block of 128 keys: head flags, differences to the left neighbour, a 16-bin histogram, the sorted keys,
// and the key of the thread 5 below (its own key for the first five).
// warpsmith: --arch sm_80 --kernel misc --grid 2 --block 64 --shared 0
// warpsmith: --arg keys=u32[256]=randint(243,0,16) --arg heads=out,i32[256] --arg diff=out,i32[256]
// warpsmith: --arg bins=out,u32[32]
// warpsmith: --arg sorted=out,u32[256] --arg below=out,u32[128]

#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_shuffle.cuh>

struct Less {
    __device__ bool operator()(unsigned a, unsigned b) const { return a < b; }
};
struct Differs {
    __device__ bool operator()(int a, int b) const { return a != b; }
};
struct Minus {
    __device__ int operator()(int a, int b) const { return a - b; }
};

extern "C" __global__ void misc(const unsigned* keys, int* heads, int* diff, unsigned* bins, unsigned* sorted,
                                unsigned* below)
{
    using Heads = cub::BlockDiscontinuity<int, 64>;
    using Difference = cub::BlockAdjacentDifference<int, 64>;
    using Histogram = cub::BlockHistogram<unsigned char, 64, 2, 16, cub::BLOCK_HISTO_ATOMIC>;
    using Sort = cub::BlockMergeSort<unsigned, 64, 2>;
    using Shuffle = cub::BlockShuffle<unsigned, 64>;
    __shared__ union {
        typename Heads::TempStorage heads;
        typename Difference::TempStorage difference;
        typename Histogram::TempStorage histogram;
        typename Sort::TempStorage sort;
        typename Shuffle::TempStorage shuffle;
    } temp;
    __shared__ unsigned counts[16];

    const int t = threadIdx.x, base = blockIdx.x * 128 + t * 2;
    int v[2] = {(int)keys[base], (int)keys[base + 1]}, flags[2], d[2];
    Heads(temp.heads).FlagHeads(flags, v, Differs());
    __syncthreads();
    Difference(temp.difference).SubtractLeft(v, d, Minus());
    __syncthreads();
    unsigned char bytes[2] = {(unsigned char)v[0], (unsigned char)v[1]};
    Histogram(temp.histogram).Histogram(bytes, counts);
    __syncthreads();
    unsigned s[2] = {(unsigned)v[0], (unsigned)v[1]};
    Sort(temp.sort).Sort(s, Less());
    __syncthreads();
    unsigned five_below = v[0];
    Shuffle(temp.shuffle).Offset((unsigned)v[0], five_below, -5);
    for (int k = 0; k < 2; ++k) {
        heads[base + k] = flags[k];
        diff[base + k] = d[k];
        sorted[base + k] = s[k];
    }
    below[blockIdx.x * 64 + t] = five_below;
    if (t < 16)
        bins[blockIdx.x * 16 + t] = counts[t];
}
