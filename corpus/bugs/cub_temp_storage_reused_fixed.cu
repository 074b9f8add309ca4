// Two CUB block reductions share one temporary storage, with a barrier between them.
// warpsmith: --arch sm_80 --kernel min_max --grid 2 --block 128 --shared 0
// warpsmith: --arg x=i32[256]=randint(3,-1000,1000) --arg lo=out,i32[2] --arg hi=out,i32[2]

#include <cub/block/block_reduce.cuh>

struct Min {
    __device__ int operator()(int a, int b) const { return min(a, b); }
};
struct Max {
    __device__ int operator()(int a, int b) const { return max(a, b); }
};

extern "C" __global__ void min_max(const int* x, int* lo, int* hi)
{
    using Reduce = cub::BlockReduce<int, 128>;
    __shared__ typename Reduce::TempStorage temp;
    const int v = x[blockIdx.x * 128 + threadIdx.x];
    const int smallest = Reduce(temp).Reduce(v, Min());
    __syncthreads();
    const int largest = Reduce(temp).Reduce(v, Max());
    if (threadIdx.x == 0) {
        lo[blockIdx.x] = smallest;
        hi[blockIdx.x] = largest;
    }
}
