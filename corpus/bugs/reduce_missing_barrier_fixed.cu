// Tree reduction in shared memory.
// warpsmith: --arch sm_80 --kernel tree_sum --grid 2 --block 128 --shared 0
// warpsmith: --arg in=f32[256]=normal(1) --arg out=out,f32[2]

extern "C" __global__ void tree_sum(const float* in, float* out)
{
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    for (int stride = 64; stride > 0; stride >>= 1) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}
