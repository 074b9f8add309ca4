// The last steps of a shared-memory reduction run in one warp without a __syncwarp between the lanes' reads and writes,
// as was common when warps ran in lockstep.
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
            s[t] += s[(t + o) & 63]; //~ race
        }
        if (t == 0)
            out[blockIdx.x] = s[0];
    }
}
