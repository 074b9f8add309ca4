// Suffix sums: each block waits for the block after it. Blocks start in order. If not all of them fit, the first ones
// wait for blocks that cannot start.
// warpsmith: --arch sm_80 --kernel suffix --grid 600 --block 32 --shared 65536
// warpsmith: --arg x=i32[19200]=randint(3,0,5) --arg total=scratch,i32[600] --arg flag=inout,i32[600]=zeros
// warpsmith: --arg ticket=inout,u32[1]=zeros --arg y=out,i32[19200]

extern "C" __global__ void suffix(const int* x, int* total, int* flag, unsigned* ticket, int* y)
{
    extern __shared__ int stage[];
    const int lane = threadIdx.x, blocks = gridDim.x;
    const int b = blockIdx.x;
    stage[lane] = x[b * 32 + lane];
    __syncwarp();
    int v = 0;
    for (int k = lane; k < 32; ++k)
        v += stage[k];
    int after = 0;
    if (lane == 0) {
        if (b + 1 < blocks) {
            while (atomicAdd(&flag[b + 1], 0) == 0) //~ not-resident //~| deadlock
                __nanosleep(50); //~| not-resident //~| deadlock
            __threadfence();
            after = total[b + 1];
        }
        total[b] = after + v;
        __threadfence();
        atomicExch(&flag[b], 1);
    }
    after = __shfl_sync(0xffffffffu, after, 0);
    y[b * 32 + lane] = after + v;
    //~? unwritten-output
}
