// Segmented sum; every lane takes part in the shuffles, lanes without data with zero.
// warpsmith: --arch sm_80 --kernel segment_sum --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[4,32]=normal(3) --arg len=i32[4]=randint(4,3,30) --arg out=out,f32[4]

extern "C" __global__ void segment_sum(const float* x, const int* len, float* out)
{
    const int lane = threadIdx.x, n = len[blockIdx.x];
    float v = 0.0f;
    if (lane < n)
        v = x[blockIdx.x * 32 + lane];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, o);
    if (lane == 0)
        out[blockIdx.x] = v;
}
