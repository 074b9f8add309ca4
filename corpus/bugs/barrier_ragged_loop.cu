// Each thread follows a chain of its own length, and the block exchanges values after every step. The barriers are in a
// loop whose trip count differs between threads: threads that are done leave while the others still wait.
// warpsmith: --arch sm_80 --kernel chains --grid 2 --block 64 --shared 0
// warpsmith: --arg steps=i32[128]=randint(5,1,9) --arg x=f32[128]=uniform(6) --arg out=out,f32[128]

extern "C" __global__ void chains(const int* steps, const float* x, float* out)
{
    __shared__ float ring[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    const int mine = steps[i];
    float v = x[i];

    for (int k = 0; k < mine; ++k) {
        ring[t] = v; //~? race
        __syncthreads(); //~ barrier-divergence
        v = 0.5f * v + 0.5f * ring[(t + 1) & 63]; //~? race
        __syncthreads(); //~| barrier-divergence
    }
    out[i] = v;
}
