// Two half-warps work on separate rows. Both synchronise with the low half's mask, so the upper lanes call __syncwarp
// with a mask that does not contain them.
// warpsmith: --arch sm_80 --kernel half_warp_max --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[4,16]=normal(3) --arg out=out,f32[4]

extern "C" __global__ void half_warp_max(const float* x, float* out)
{
    __shared__ float s[2][16];
    const int half = threadIdx.x / 16, lane = threadIdx.x % 16;
    const unsigned mask = 0x0000ffffu;
    s[half][lane] = x[(blockIdx.x * 2 + half) * 16 + lane]; //~? race
    for (int stride = 8; stride > 0; stride >>= 1) {
        __syncwarp(mask); //~ warp-mask
        float v = s[half][lane]; //~? race
        if (lane < stride)
            v = fmaxf(v, s[half][lane + stride]); //~? race
        __syncwarp(mask); //~| warp-mask
        s[half][lane] = v; //~? race
    }
    if (lane == 0)
        out[blockIdx.x * 2 + half] = s[half][0]; //~? race
}
