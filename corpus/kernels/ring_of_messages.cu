// One block sends rows to another through a ring of four, with release and acquire on two counters.
// Expected: out[i] = the sum of row i of in.
// warpsmith: --arch sm_80 --kernel ring --grid 2 --block 32 --shared 0
// warpsmith: --arg in=i32[20,32]=randint(45,0,1000) --arg slots=scratch,i32[4,32] --arg head=inout,u32[1]=zeros
// warpsmith: --arg tail=inout,u32[1]=zeros --arg out=out,i32[20] --arg rows=i32=20

#include <cuda/atomic>

extern "C" __global__ void ring(const int* in, int* slots, unsigned* head, unsigned* tail, int* out, int rows)
{
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> sent(*head), taken(*tail);
    const int lane = threadIdx.x;
    for (int row = 0; row < rows; ++row) {
        int* slot = slots + row % 4 * 32;
        if (blockIdx.x == 0) {
            if (lane == 0)
                while (row - static_cast<int>(taken.load(cuda::memory_order_acquire)) >= 4)
                    __nanosleep(20);
            __syncwarp();
            slot[lane] = in[row * 32 + lane];
            __syncwarp();
            if (lane == 0)
                sent.store(row + 1, cuda::memory_order_release);
        } else {
            if (lane == 0)
                while (static_cast<int>(sent.load(cuda::memory_order_acquire)) <= row)
                    __nanosleep(20);
            __syncwarp();
            const int sum = __reduce_add_sync(0xffffffffu, slot[lane]);
            __syncwarp();
            if (lane == 0) {
                out[row] = sum;
                taken.store(row + 1, cuda::memory_order_release);
            }
        }
    }
}
