// Warp-synchronous reduction in shared memory, each warp on its own stripe, ordered by __syncwarp alone.
// Expected: sums[w] = the sum of warp w's 64 elements.
// warpsmith: --arch sm_80 --kernel warp_sums --grid 2 --block 96 --shared 0
// warpsmith: --arg in=f32[384]=uniform(155) --arg sums=out,f32[6]

extern "C" __global__ void warp_sums(const float* in, float* sums)
{
    __shared__ float s[3][64];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, global = blockIdx.x * 3 + warp;
    float* mine = s[warp];
    mine[lane] = in[global * 64 + lane];
    mine[lane + 32] = in[global * 64 + 32 + lane];
    __syncwarp();
    for (int half = 32; half > 0; half >>= 1) {
        float v = 0.0f;
        if (lane < half)
            v = mine[lane] + mine[lane + half];
        __syncwarp();
        if (lane < half)
            mine[lane] = v;
        __syncwarp();
    }
    if (lane == 0)
        sums[global] = mine[0];
}
