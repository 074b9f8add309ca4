// Stream compaction with one atomic per warp: the shuffle reads from the lane that reserved the places.
// warpsmith: --arch sm_80 --kernel compact --grid 2 --block 64 --shared 0
// warpsmith: --arg in=i32[128]=iota --arg out=scratch,i32[192] --arg count=inout,i32[1]=zeros

extern "C" __global__ void compact(const int* in, int* out, int* count)
{
    const int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    const int lane = threadIdx.x % 32;
    if (value % 3 == 1) {
        const unsigned active = __activemask();
        const int leader = __ffs(active) - 1;
        int base = 0;
        if (lane == leader)
            base = atomicAdd(count, __popc(active));
        base = __shfl_sync(active, base, leader);
        out[base + __popc(active & ((1u << lane) - 1))] = value;
    }
}
