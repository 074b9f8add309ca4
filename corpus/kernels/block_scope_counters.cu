// Correct use of block-scope atomics and fences: counters that only one block uses, in global and in shared memory.
// Expected: evens[b] = the block's even elements; log[b] holds them in any order, then zeros.
// warpsmith: --arch sm_80 --kernel per_block --grid 4 --block 64 --shared 0
// warpsmith: --arg x=i32[256]=randint(251,1,1000) --arg evens=inout,i32[4]=zeros --arg log=inout,i32[256]=zeros
// warpsmith: --arg sum=out,i32[4]

extern "C" __global__ void per_block(const int* x, int* evens, int* log, int* sum)
{
    __shared__ volatile int ready;
    const int t = threadIdx.x, v = x[blockIdx.x * 64 + t];
    if (t == 0)
        ready = 0;
    __syncthreads();
    if (v % 2 == 0)
        log[blockIdx.x * 64 + atomicAdd_block(&evens[blockIdx.x], 1)] = v;
    __syncthreads();
    // The first warp adds the counts and passes them to the second with a flag that is ordered only for this block.
    if (t < 32) {
        int s = log[blockIdx.x * 64 + t] + log[blockIdx.x * 64 + 32 + t];
        for (int o = 16; o > 0; o >>= 1)
            s += __shfl_down_sync(0xffffffffu, s, o);
        if (t == 0) {
            sum[blockIdx.x] = s;
            __threadfence_block();
            ready = 1;
        }
    } else if (t == 32) {
        while (ready == 0) {
        }
        __threadfence_block();
        sum[blockIdx.x] += evens[blockIdx.x];
    }
}
