// The barrier object expects all threads of the block, but threads past the end of the data have returned.
// warpsmith: --arch sm_80 --kernel add_neighbour --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[100]=normal(1) --arg y=out,f32[100] --arg n=i32=100
#include <cuda/barrier>
extern "C" __global__ void add_neighbour(const float* x, float* y, int n) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float row[64];
    int first = blockIdx.x * 64, i = first + threadIdx.x;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    if (i >= n) return;
    row[threadIdx.x] = x[i];
    bar.arrive_and_wait(); //~ deadlock
    y[i] = row[threadIdx.x ^ 1];
}
