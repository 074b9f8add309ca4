// Blocks pass data to each other with __threadfence.
// warpsmith: --arch sm_80 --kernel partials --grid 4 --block 64 --shared 0
// warpsmith: --arg x=f32[256]=normal(3) --arg partial=scratch,f32[4]
// warpsmith: --arg ticket=inout,u32[1]=zeros --arg out=out,f32[1]

extern "C" __global__ void partials(const float* x, float* partial, unsigned* ticket, float* out)
{
    __shared__ float warp_sum[2];
    const int t = threadIdx.x;
    float v = x[blockIdx.x * 64 + t];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, o);
    if ((t & 31) == 0)
        warp_sum[t >> 5] = v;
    __syncthreads();
    if (t == 0) {
        partial[blockIdx.x] = warp_sum[0] + warp_sum[1];
        __threadfence();
        if (atomicAdd(ticket, 1u) == gridDim.x - 1) {
            __threadfence();
            float sum = 0.0f;
            for (int b = 0; b < gridDim.x; ++b)
                sum += partial[b];
            out[0] = sum;
        }
    }
}
