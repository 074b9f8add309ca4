// Warp sums of a ragged vector. Lanes past the end skip the load and use an uninitialised register in the shuffles.
// warpsmith: --arch sm_80 --kernel warp_sums --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[100]=normal(3) --arg sums=out,f32[4] --arg n=i32=100

extern "C" __global__ void warp_sums(const float* x, float* sums, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v;
    if (i < n)
        v = x[i];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o); //~ uninitialised
    if ((threadIdx.x & 31) == 0)
        sums[i / 32] = v; //~| uninitialised
}
