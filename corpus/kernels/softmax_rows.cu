// Row softmax, one block per row, expf of the distance to the maximum; the row is wider than the block and ragged.
// Expected: y[r][c] = exp(x[r][c] - max_r) / sum_c exp(x[r][c] - max_r).
// warpsmith: --arch sm_80 --kernel softmax_rows --grid 6 --block 128 --shared 0
// warpsmith: --arg x=f32[6,333]=normal(3) --arg y=out,f32[6,333] --arg cols=i32=333

#include <math_constants.h>

#define FULL 0xffffffffu

__device__ float block_max(float v, float* scratch)
{
    for (int o = 16; o > 0; o >>= 1)
        v = fmaxf(v, __shfl_xor_sync(FULL, v, o));
    if ((threadIdx.x & 31) == 0)
        scratch[threadIdx.x >> 5] = v;
    __syncthreads();
    v = scratch[0];
    for (int w = 1; w < blockDim.x / 32; ++w)
        v = fmaxf(v, scratch[w]);
    __syncthreads();
    return v;
}

__device__ float block_sum(float v, float* scratch)
{
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(FULL, v, o);
    if ((threadIdx.x & 31) == 0)
        scratch[threadIdx.x >> 5] = v;
    __syncthreads();
    v = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w)
        v += scratch[w];
    __syncthreads();
    return v;
}

extern "C" __global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ y, int cols)
{
    __shared__ float scratch[32];
    const float* row = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;

    float m = -CUDART_INF_F;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        m = fmaxf(m, row[c]);
    m = block_max(m, scratch);

    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        s += expf(row[c] - m);
    s = block_sum(s, scratch);

    const float inv = 1.0f / s;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[c] = expf(row[c] - m) * inv;
}
