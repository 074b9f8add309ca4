// The last steps of a shared-memory reduction run in one warp, with a __syncwarp between reads and writes.
// warpsmith: --arch sm_80 --kernel reduce --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[128]=normal(3) --arg out=out,f32[2]

extern "C" __global__ void reduce(const float* in, float* out)
{
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 32) {
        for (int o = 32; o > 0; o >>= 1) {
            const float v = s[t] + s[(t + o) & 63];
            __syncwarp();
            s[t] = v;
            __syncwarp();
        }
        if (t == 0)
            out[blockIdx.x] = s[0];
    }
}
