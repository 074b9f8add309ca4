// Suffix sums: blocks number themselves from the end as they start, so each waits only for a block that already runs.
// warpsmith: --arch sm_80 --kernel suffix --grid 600 --block 32 --shared 65536
// warpsmith: --arg x=i32[19200]=randint(3,0,5) --arg total=scratch,i32[600] --arg flag=inout,i32[600]=zeros
// warpsmith: --arg ticket=inout,u32[1]=zeros --arg y=out,i32[19200]

extern "C" __global__ void suffix(const int* x, int* total, int* flag, unsigned* ticket, int* y)
{
    extern __shared__ int stage[];
    const int lane = threadIdx.x, blocks = gridDim.x;
    if (lane == 0)
        stage[0] = atomicAdd(ticket, 1u);
    __syncwarp();
    const int b = blocks - 1 - stage[0];
    __syncwarp();
    stage[lane] = x[b * 32 + lane];
    __syncwarp();
    int v = 0;
    for (int k = lane; k < 32; ++k)
        v += stage[k];
    int after = 0;
    if (lane == 0) {
        if (b + 1 < blocks) {
            while (atomicAdd(&flag[b + 1], 0) == 0)
                __nanosleep(50);
            __threadfence();
            after = total[b + 1];
        }
        total[b] = after + v;
        __threadfence();
        atomicExch(&flag[b], 1);
    }
    after = __shfl_sync(0xffffffffu, after, 0);
    y[b * 32 + lane] = after + v;
}
