// Per-block column sums accumulated with shared atomics into bins that were never cleared.
// warpsmith: --arch sm_80 --kernel column_sums --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[64,16]=normal(3) --arg sums=out,f32[2,16]

extern "C" __global__ void column_sums(const float* x, float* sums)
{
    __shared__ float bins[16];
    const int t = threadIdx.x;
    const float* mine = x + blockIdx.x * 32 * 16;
    for (int i = t; i < 32 * 16; i += 64)
        atomicAdd(&bins[i & 15], mine[i]); //~ uninitialised
    __syncthreads();
    if (t < 16)
        sums[blockIdx.x * 16 + t] = bins[t]; //~| uninitialised
}
