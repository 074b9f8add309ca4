// Values in [0, max] are scaled to 32 bins, with the maximum clamped into the last bin.
// warpsmith: --arch sm_80 --kernel bins32 --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[512]=randint(3,0,65) --arg bins=out,u32[2,32] --arg top=f32=64

extern "C" __global__ void bins32(const float* x, unsigned* bins, float top)
{
    __shared__ unsigned local[32];
    const int t = threadIdx.x;
    if (t < 32)
        local[t] = 0;
    __syncthreads();
    for (int i = t; i < 256; i += 64) {
        const int b = static_cast<int>(x[blockIdx.x * 256 + i] / top * 32.0f);
        atomicAdd(&local[min(b, 31)], 1u);
    }
    __syncthreads();
    if (t < 32)
        bins[blockIdx.x * 32 + t] = local[t];
}
