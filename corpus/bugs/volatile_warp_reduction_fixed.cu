// The last 32 threads of a reduction add through shared memory with __syncwarp between reads and writes.
// warpsmith: --arch sm_80 --kernel reduce --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f32[256]=normal(5) --arg sums=out,f32[2]

__device__ void add_last_warp(float* s, int t)
{
    for (int step = 32; step > 0; step >>= 1) {
        const float sum = s[t] + s[t + step];
        __syncwarp();
        s[t] = sum;
        __syncwarp();
    }
}

extern "C" __global__ void reduce(const float* x, float* sums)
{
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    if (t < 64)
        s[t] += s[t + 64];
    __syncthreads();
    if (t < 32)
        add_last_warp(s, t);
    if (t == 0)
        sums[blockIdx.x] = s[0];
}
