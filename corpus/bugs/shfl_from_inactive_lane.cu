// Segmented sum. Only lanes with data enter the branch, but their shuffles read from lanes that did not enter.
// warpsmith: --arch sm_80 --kernel segment_sum --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[4,32]=normal(3) --arg len=i32[4]=randint(4,3,30) --arg out=out,f32[4]

extern "C" __global__ void segment_sum(const float* x, const int* len, float* out)
{
    const int lane = threadIdx.x, n = len[blockIdx.x];
    float v = 0.0f;
    if (lane < n) {
        v = x[blockIdx.x * 32 + lane];
        for (int o = 16; o > 0; o >>= 1)
            v += __shfl_down_sync(__activemask(), v, o); //~ warp-mask
    }
    if (lane == 0)
        out[blockIdx.x] = v; //~? uninitialised
}
