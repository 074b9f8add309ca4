// Three-point stencil: the left halo of the first block is read from index -1.
// warpsmith: --arch sm_80 --kernel stencil3 --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[128]=normal(3) --arg out=out,f32[128] --arg n=i32=128

extern "C" __global__ void stencil3(const float* in, float* out, int n)
{
    __shared__ float s[66];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t + 1] = in[i];
    if (t == 0)
        s[0] = in[i - 1]; //~ out-of-bounds
    if (t == 63)
        s[65] = i + 1 < n ? in[i + 1] : 0.0f;
    __syncthreads();
    out[i] = (s[t] + s[t + 1] + s[t + 2]) * (1.0f / 3.0f); //~? uninitialised
}
