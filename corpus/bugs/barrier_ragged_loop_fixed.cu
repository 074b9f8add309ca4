// Each thread follows a chain of its own length, and the block exchanges values after every step. All threads run as
// many iterations as the longest chain needs.
// warpsmith: --arch sm_80 --kernel chains --grid 2 --block 64 --shared 0
// warpsmith: --arg steps=i32[128]=randint(5,1,9) --arg x=f32[128]=uniform(6) --arg out=out,f32[128]

extern "C" __global__ void chains(const int* steps, const float* x, float* out)
{
    __shared__ float ring[64];
    __shared__ int longest;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    const int mine = steps[i];
    float v = x[i];

    if (t == 0)
        longest = 0;
    __syncthreads();
    atomicMax(&longest, mine);
    __syncthreads();
    const int trips = longest;
    for (int k = 0; k < trips; ++k) {
        ring[t] = v;
        __syncthreads();
        if (k < mine)
            v = 0.5f * v + 0.5f * ring[(t + 1) & 63];
        __syncthreads();
    }
    out[i] = v;
}
