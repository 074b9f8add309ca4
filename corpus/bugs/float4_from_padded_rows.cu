// Rows are padded by one float against bank conflicts and read as float4, which is aligned only in every fourth row.
// warpsmith: --arch sm_80 --kernel row_sums --grid 1 --block 32 --shared 0
// warpsmith: --arg x=f32[32,32]=normal(1) --arg y=out,f32[32]

extern "C" __global__ void row_sums(const float* x, float* y)
{
    __shared__ __align__(16) float s[32][33];
    const int t = threadIdx.x;
    for (int r = 0; r < 32; ++r)
        s[r][t] = x[r * 32 + t];
    __syncwarp();
    float sum = 0.0f;
    for (int c = 0; c < 32; c += 4) {
        const float4 v = *reinterpret_cast<const float4*>(&s[t][c]); //~ misaligned
        sum += v.x + v.y + v.z + v.w;
    }
    y[t] = sum; //~? uninitialised
}
