// Shared histogram with atomics that is written out after a barrier.
// warpsmith: --arch sm_80 --kernel histogram --grid 2 --block 128 --shared 0
// warpsmith: --arg keys=u8[512]=randint(3,0,32) --arg bins=out,u32[2,32]

extern "C" __global__ void histogram(const unsigned char* keys, unsigned* bins)
{
    __shared__ unsigned local[32];
    const int t = threadIdx.x;
    if (t < 32)
        local[t] = 0;
    __syncthreads();
    for (int i = t; i < 256; i += 128)
        atomicAdd(&local[keys[blockIdx.x * 256 + i]], 1u);
    __syncthreads();
    if (t < 32)
        bins[blockIdx.x * 32 + t] = local[t];
}
