// Whole-vector sum in one launch: every block stores a partial sum, and the last block to finish adds them.
// Every thread fences its own stores before the block's barrier (the older idiom).
// Expected: out[0] = the sum; ticket[0] = 0 again.
// warpsmith: --arch sm_80 --kernel reduce_last --grid 6 --block 64 --shared 0
// warpsmith: --arg in=f32[1000]=uniform(152) --arg partial=scratch,f32[6,2] --arg ticket=inout,u32[1]=zeros
// warpsmith: --arg out=out,f32[1] --arg n=i32=1000

extern "C" __global__ void reduce_last(const float* in, volatile float* partial, unsigned* ticket, float* out, int n)
{
    __shared__ bool last;
    const int t = threadIdx.x;
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
        v += in[i];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, o);
    if ((t & 31) == 0)
        partial[blockIdx.x * 2 + (t >> 5)] = v;
    __threadfence();
    __syncthreads();
    if (t == 0)
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && t < 32) {
        __threadfence();
        v = t < 2 * gridDim.x ? partial[t] : 0.0f;
        for (int o = 16; o > 0; o >>= 1)
            v += __shfl_down_sync(0xffffffffu, v, o);
        if (t == 0)
            out[0] = v;
    }
}
