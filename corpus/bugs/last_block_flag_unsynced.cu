// The last block to finish adds the results of all blocks. Thread 0 writes whether this block is the last one, and the
// others read it without a barrier in between.
// warpsmith: --arch sm_80 --kernel total --grid 3 --block 64 --shared 0
// warpsmith: --arg in=i32[3,64]=randint(35,0,100) --arg part=scratch,i32[3,64] --arg ticket=inout,u32[1]=zeros
// warpsmith: --arg out=inout,i32[64]=zeros

extern "C" __global__ void total(const int* in, int* part, unsigned* ticket, int* out)
{
    __shared__ bool last;
    const int i = blockIdx.x * 64 + threadIdx.x;
    part[i] = in[i] * 3;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(ticket, 1u) == gridDim.x - 1; //~ race
    if (last) { //~| race //~? uninitialised
        __threadfence();
        int sum = 0;
        for (int b = 0; b < gridDim.x; ++b)
            sum += part[b * 64 + threadIdx.x];
        out[threadIdx.x] = sum;
    }
}
