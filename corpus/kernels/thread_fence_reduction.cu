// The single-pass reduction of NVIDIA's samples: partial sums in volatile memory, __threadfence, a ticket, and the last
// block adds the partial sums.
// Expected: total[0] = sum of x, ticket[0] = 0 again.
// warpsmith: --arch sm_80 --kernel single_pass --grid 8 --block 64 --shared 0
// warpsmith: --arg x=f32[2048]=normal(8) --arg partial=scratch,f32[8] --arg ticket=inout,u32[1]=zeros --arg total=out,f32[1]

__device__ float block_sum(float v, float* s)
{
    const int t = threadIdx.x;
    s[t] = v;
    __syncthreads();
    for (int step = 32; step > 0; step >>= 1) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    return s[0];
}

extern "C" __global__ void single_pass(const float* x, volatile float* partial, unsigned* ticket, float* total)
{
    __shared__ float s[64];
    __shared__ bool last;
    const int t = threadIdx.x;
    float v = 0.0f;
    for (int i = blockIdx.x * 64 + t; i < 2048; i += gridDim.x * 64)
        v += x[i];
    const float sum = block_sum(v, s);
    if (t == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(ticket, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    const float all = block_sum(t < gridDim.x ? partial[t] : 0.0f, s);
    if (t == 0) {
        total[0] = all;
        *ticket = 0;
    }
}
