// Normalises a vector by its sum: every block adds its part, the grid synchronises, every block divides.
//
// Bug: the grid has one block per 128 elements, more than the device can hold at a time. A grid that synchronises itself
// must be resident as a whole.
//
// warpsmith: --arch sm_80 --kernel normalise --grid 4096 --block 128
// warpsmith: --arg x=inout,f32[524288]=ones --arg sum=inout,f32[1]=zeros --arg n=i32=524288
#include <cooperative_groups.h>

extern "C" __global__ void normalise(float* x, float* sum, int n)  //~ not-resident
{
    auto grid = cooperative_groups::this_grid();
    __shared__ float part;
    if (threadIdx.x == 0) part = 0.0f;
    __syncthreads();
    for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) atomicAdd(&part, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(sum, part);
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) x[i] /= *sum;
}
