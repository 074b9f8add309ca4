// Normalises a vector by its sum: every block adds its part, the grid synchronises, every block divides.
// The blocks stride over the elements, so the grid fits
// on the device.
//
// warpsmith: --arch sm_80 --kernel normalise --grid 64 --block 128
// warpsmith: --arg x=inout,f32[524288]=ones --arg sum=inout,f32[1]=zeros --arg n=i32=524288
#include <cooperative_groups.h>

extern "C" __global__ void normalise(float* x, float* sum, int n)
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
