// Two half-warps work on separate rows, each with its own mask.
// warpsmith: --arch sm_80 --kernel half_warp_max --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[4,16]=normal(3) --arg out=out,f32[4]

extern "C" __global__ void half_warp_max(const float* x, float* out)
{
    __shared__ float s[2][16];
    const int half = threadIdx.x / 16, lane = threadIdx.x % 16;
    const unsigned mask = 0x0000ffffu << (half * 16);
    s[half][lane] = x[(blockIdx.x * 2 + half) * 16 + lane];
    for (int stride = 8; stride > 0; stride >>= 1) {
        __syncwarp(mask);
        float v = s[half][lane];
        if (lane < stride)
            v = fmaxf(v, s[half][lane + stride]);
        __syncwarp(mask);
        s[half][lane] = v;
    }
    if (lane == 0)
        out[blockIdx.x * 2 + half] = s[half][0];
}
