// A queue tail shared by all blocks is advanced through an atomic_ref of block scope.
// warpsmith: --arch sm_80 --kernel enqueue --grid 4 --block 32 --shared 0
// warpsmith: --arg x=i32[128]=randint(3,0,1000) --arg tail=inout,i32[1]=zeros --arg queue=inout,i32[128]=zeros

#include <cuda/atomic>

extern "C" __global__ void enqueue(const int* x, int* tail, int* queue)
{
    const int v = x[blockIdx.x * 32 + threadIdx.x];
    if (v % 3 == 0) {
        cuda::atomic_ref<int, cuda::thread_scope_block> end(*tail);
        const int at = end.fetch_add(1, cuda::memory_order_relaxed); //~ scope //~| race
        queue[at] = v; //~? race
    }
}
