// A grid barrier by counter is passed twice, and the target increases each time.
// warpsmith: --arch sm_80 --kernel two_phases --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[4,32]=normal(3) --arg a=scratch,f32[4] --arg b=scratch,f32[4]
// warpsmith: --arg arrived=inout,u32[1]=zeros --arg y=out,f32[4]

__device__ void grid_barrier(unsigned* arrived, unsigned target)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < target) {
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void two_phases(const float* x, float* a, float* b, unsigned* arrived, float* y)
{
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x == 0)
        a[blockIdx.x] = v;
    grid_barrier(arrived, gridDim.x);
    if (threadIdx.x == 0)
        b[blockIdx.x] = a[(blockIdx.x + 1) % gridDim.x] * 2.0f;
    grid_barrier(arrived, 2 * gridDim.x);
    if (threadIdx.x == 0)
        y[blockIdx.x] = b[(blockIdx.x + 1) % gridDim.x] + v;
}
