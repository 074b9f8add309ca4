// Shared histogram with a plain increment: two threads with the same key lose a count.
// warpsmith: --arch sm_80 --kernel histogram --grid 2 --block 128 --shared 0
// warpsmith: --arg keys=u8[1024]=randint(3,0,64) --arg bins=out,u32[2,64]

extern "C" __global__ void histogram(const unsigned char* keys, unsigned* bins)
{
    __shared__ unsigned local[64];
    const int t = threadIdx.x;
    if (t < 64)
        local[t] = 0;
    __syncthreads();
    for (int i = t; i < 512; i += 128)
        local[keys[blockIdx.x * 512 + i]] += 1; //~ race
    __syncthreads();
    if (t < 64)
        bins[blockIdx.x * 64 + t] = local[t];
}
