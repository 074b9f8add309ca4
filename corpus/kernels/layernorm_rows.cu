// Layer normalisation, one warp per row, float4 loads, two-pass variance, gamma and beta.
// Expected: y = (x - mean) / sqrt(var + eps) * gamma + beta per row, biased variance.
// warpsmith: --arch sm_80 --kernel layernorm --grid 3 --block 32,4 --shared 0
// warpsmith: --arg x=f32[11,256]=normal(11) --arg gamma=f32[256]=uniform(12) --arg beta=f32[256]=normal(13)
// warpsmith: --arg y=out,f32[11,256] --arg rows=i32=11 --arg eps=f32=1e-5

__device__ __forceinline__ float warp_sum(float v)
{
    for (int o = 16; o > 0; o /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

extern "C" __global__ void layernorm(const float* __restrict__ x, const float* __restrict__ gamma,
                                     const float* __restrict__ beta, float* __restrict__ y, int rows,
                                     float eps)
{
    constexpr int COLS = 256, PER_LANE = COLS / 128;
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    const float4* in = reinterpret_cast<const float4*>(x + row * COLS);
    const float4* g4 = reinterpret_cast<const float4*>(gamma);
    const float4* b4 = reinterpret_cast<const float4*>(beta);
    float4* out = reinterpret_cast<float4*>(y + row * COLS);

    float4 v[PER_LANE];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
        v[k] = __ldg(in + k * 32 + threadIdx.x);
        sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    }
    const float mean = warp_sum(sum) / COLS;

    float var = 0.0f;
#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
        v[k].x -= mean; v[k].y -= mean; v[k].z -= mean; v[k].w -= mean;
        var += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
    }
    const float scale = rsqrtf(warp_sum(var) / COLS + eps);

#pragma unroll
    for (int k = 0; k < PER_LANE; ++k) {
        const float4 g = g4[k * 32 + threadIdx.x], b = b4[k * 32 + threadIdx.x];
        out[k * 32 + threadIdx.x] =
            make_float4(v[k].x * scale * g.x + b.x, v[k].y * scale * g.y + b.y,
                        v[k].z * scale * g.z + b.z, v[k].w * scale * g.w + b.w);
    }
}
