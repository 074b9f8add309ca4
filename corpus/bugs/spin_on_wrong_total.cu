// One thread per block counts its block, but the waiting threads expect the number of threads, which is never reached.
// warpsmith: --arch sm_80 --kernel phase --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[4]=normal(3) --arg part=scratch,f32[4] --arg arrived=inout,u32[1]=zeros --arg y=out,f32[4]

extern "C" __global__ void phase(const float* x, float* part, unsigned* arrived, float* y)
{
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x] * x[blockIdx.x];
        __threadfence();
        atomicAdd(arrived, 1u);
        const unsigned everyone = gridDim.x * blockDim.x;
        while (atomicAdd(arrived, 0u) < everyone) //~ deadlock //~| runaway
            __nanosleep(100); //~| deadlock //~| runaway
        __threadfence();
        y[blockIdx.x] = part[gridDim.x - 1 - blockIdx.x]; //~? unwritten-output
    }
}
