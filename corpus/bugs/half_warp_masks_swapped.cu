// Each half of the warp reduces its own row in its own branch, but with the other half's mask.
// warpsmith: --arch sm_80 --kernel two_rows --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[4,16]=normal(3) --arg y=out,f32[4]

__device__ float sum16(float v, unsigned mask)
{
    for (int o = 8; o > 0; o >>= 1)
        v += __shfl_xor_sync(mask, v, o); //~ warp-mask
    return v;
}

extern "C" __global__ void two_rows(const float* x, float* y)
{
    const int lane = threadIdx.x;
    const float v = x[blockIdx.x * 32 + lane];
    float sum;
    if (lane < 16)
        sum = sum16(v, 0xffff0000u); //~| warp-mask
    else
        sum = sum16(v * 2.0f, 0x0000ffffu); //~| warp-mask
    if (lane % 16 == 0)
        y[blockIdx.x * 2 + lane / 16] = sum; //~? uninitialised
}
