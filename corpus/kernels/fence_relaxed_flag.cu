// Blocks pass data with cuda::atomic_thread_fence and relaxed flags. They count themselves by a fetch_add with
// acquire-release order, and the last block to arrive adds the plain data of the others.
// Expected: total[0] = the sum of 2 x over all blocks; doubled = 2 x from the previous block (block 0: its own).
// warpsmith: --arch sm_80 --kernel handover --grid 4 --block 32 --shared 0
// warpsmith: --arg x=i32[128]=randint(256,0,100) --arg box=scratch,i32[128] --arg flag=inout,u32[4]=zeros
// warpsmith: --arg arrived=inout,u32[1]=zeros --arg doubled=out,i32[128] --arg total=inout,i32[1]=zeros

#include <cuda/atomic>

extern "C" __global__ void handover(const int* x, int* box, unsigned* flag, unsigned* arrived, int* doubled, int* total)
{
    const int lane = threadIdx.x, b = blockIdx.x, from = b > 0 ? b - 1 : 0;
    box[b * 32 + lane] = 2 * x[b * 32 + lane];
    __syncwarp();
    bool last = false;
    if (lane == 0) {
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> mine(flag[b]), other(flag[from]), count(*arrived);
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
        mine.store(1, cuda::memory_order_relaxed);
        while (other.load(cuda::memory_order_relaxed) == 0) {
        }
        cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
        last = count.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1;
    }
    __syncwarp();
    doubled[b * 32 + lane] = box[from * 32 + lane];
    if (__shfl_sync(0xffffffffu, last, 0)) {
        int sum = 0;
        for (int k = 0; k < gridDim.x; ++k)
            sum += box[k * 32 + lane];
        sum = __reduce_add_sync(0xffffffffu, sum);
        if (lane == 0)
            *total = sum;
    }
}
