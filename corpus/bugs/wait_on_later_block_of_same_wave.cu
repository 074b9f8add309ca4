// Block 0 completes the work after all other blocks have signalled, but it counts itself among them.
// warpsmith: --arch sm_80 --kernel gather --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[4,32]=normal(3) --arg part=scratch,f32[4] --arg ready=inout,i32[1]=zeros --arg y=out,f32[1]

extern "C" __global__ void gather(const float* x, float* part, int* ready, float* y)
{
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, o);
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x != 0) {
        part[blockIdx.x] = v;
        __threadfence();
        atomicAdd(ready, 1);
    } else {
        const int others = gridDim.x;
        while (atomicAdd(ready, 0) != others) { //~ deadlock //~| runaway
        }
        __threadfence();
        for (int b = 1; b < gridDim.x; ++b)
            v += part[b];
        y[0] = v; //~? unwritten-output
    }
}
