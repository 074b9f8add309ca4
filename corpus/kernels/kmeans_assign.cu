// One k-means step: nearest of 8 centres, then new sums by shared float atomics and counts by integer atomics.
// Expected: label[i], and per centre the sum of its points and their number.
// warpsmith: --arch sm_80 --kernel kmeans --grid 2 --block 96 --shared 0
// warpsmith: --arg p=f32[190,2]=uniform(235) --arg centre=f32[8,2]=uniform(236) --arg label=out,i32[190]
// warpsmith: --arg sum=inout,f32[8,2]=zeros --arg size=inout,i32[8]=zeros --arg n=i32=190

extern "C" __global__ void kmeans(const float2* p, const float2* centre, int* label, float* sum, int* size, int n)
{
    __shared__ float2 c[8];
    __shared__ float s[16];
    __shared__ int count[8];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 8) {
        c[t] = centre[t];
        count[t] = 0;
    }
    if (t < 16)
        s[t] = 0.0f;
    __syncthreads();
    if (i < n) {
        const float2 v = p[i];
        int best = 0;
        float nearest = 1.0e30f;
        for (int k = 0; k < 8; ++k) {
            const float dx = __fsub_rn(v.x, c[k].x), dy = __fsub_rn(v.y, c[k].y);
            const float d = __fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy));
            if (d < nearest) {
                nearest = d;
                best = k;
            }
        }
        label[i] = best;
        atomicAdd(&s[best * 2], v.x);
        atomicAdd(&s[best * 2 + 1], v.y);
        atomicAdd(&count[best], 1);
    }
    __syncthreads();
    if (t < 16)
        atomicAdd(&sum[t], s[t]);
    if (t < 8)
        atomicAdd(&size[t], count[t]);
}
