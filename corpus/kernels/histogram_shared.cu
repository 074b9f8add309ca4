// 256-bin byte histogram: private shared bins per block, then one global atomic per bin.
// The bytes are read four at a time as 32-bit words.
// Expected: bins[v] = initial + the number of bytes equal to v.
// warpsmith: --arch sm_80 --kernel histogram --grid 4 --block 128 --shared 0
// warpsmith: --arg words=u32[1500]=randint(9,0,4294967296) --arg bins=inout,u32[256]=zeros --arg n=i32=1500

extern "C" __global__ void histogram(const unsigned* __restrict__ words, unsigned* bins, int n)
{
    __shared__ unsigned local[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        local[b] = 0;
    __syncthreads();

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        const unsigned w = words[i];
        atomicAdd(&local[w & 255u], 1u);
        atomicAdd(&local[(w >> 8) & 255u], 1u);
        atomicAdd(&local[(w >> 16) & 255u], 1u);
        atomicAdd(&local[w >> 24], 1u);
    }
    __syncthreads();

    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (local[b])
            atomicAdd(&bins[b], local[b]);
}
