// The sums of eight columns over four rows of lanes. One step of the butterfly over the rows is left out.
// warpsmith: --arch sm_80 --kernel columns --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[64]=normal(3) --arg y=out,f32[16]

extern "C" __global__ void columns(const float* x, float* y)
{
    float v = x[blockIdx.x * 32 + threadIdx.x];
    v += __shfl_xor_sync(0xffffffffu, v, 16);
    v += __shfl_xor_sync(0xffffffffu, v, 8);
    y[blockIdx.x * 8 + threadIdx.x % 8] = v;
}
