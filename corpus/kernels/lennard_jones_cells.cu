// Lennard-Jones forces in one dimension with a cut-off; tiles of positions in shared memory, double-buffered by the loop.
// Expected: f[i] = sum over |d| < 2 of 24 (2 / d^13 - 1 / d^7) with d the distance plus 0.5, signed.
// warpsmith: --arch sm_80 --kernel forces --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=iota --arg f=out,f32[128]

extern "C" __global__ void forces(const float* x, float* f)
{
    __shared__ float tile[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    const float own = x[i] * 0.75f;
    float force = 0.0f;
    for (int base = 0; base < 128; base += 64) {
        tile[t] = x[base + t] * 0.75f;
        __syncthreads();
        for (int j = 0; j < 64; ++j) {
            const float gap = own - tile[j], d = fabsf(gap) + 0.5f;
            if (base + j != i && fabsf(gap) < 2.0f) {
                const float d3 = d * d * d, d6 = d3 * d3;
                const float size = 24.0f * (2.0f / (d6 * d6 * d) - 1.0f / (d6 * d));
                force += gap > 0.0f ? size : -size;
            }
        }
        __syncthreads();
    }
    f[i] = force;
}
