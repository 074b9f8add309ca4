// A fair ticket lock with proportional nanosleep back-off, taken by one thread per block, with cuda::atomic_ref.
// Expected: sum[0] = 0 + 1 + ... + blocks - 1, and order[] a permutation: order[k] is the k-th block to enter.
// warpsmith: --arch sm_80 --kernel ticket_lock --grid 8 --block 32 --shared 0
// warpsmith: --arg tickets=inout,u32[2]=zeros --arg sum=inout,i32[1]=zeros --arg order=out,i32[8]

#include <cuda/atomic>

extern "C" __global__ void ticket_lock(unsigned* tickets, int* sum, int* order)
{
    if (threadIdx.x == 0) {
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> next(tickets[0]), serving(tickets[1]);
        const unsigned mine = next.fetch_add(1, cuda::memory_order_relaxed);
        for (unsigned now; (now = serving.load(cuda::memory_order_acquire)) != mine;)
            __nanosleep(20 * (mine - now));
        *sum += blockIdx.x;
        order[mine] = blockIdx.x;
        serving.store(mine + 1, cuda::memory_order_release);
    }
}
