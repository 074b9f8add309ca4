// RMSNorm by blocks that take row after row. The partial sums of a row are read without a barrier before the next row's are
// stored in the same place: a fast warp overwrites what a slow warp still needs.
// warpsmith: --arch sm_80 --kernel rmsnorm --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f16[12,256]=normal(3) --arg weight=f16[256]=normal(4) --arg y=out,f16[12,256] --arg rows=i32=12

#include <cuda_fp16.h>

constexpr int COLS = 256, WARPS = 4;

__device__ float lane_sum(float x, int width)
{
    for (int distance = width / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

extern "C" __global__ void rmsnorm(const __half* x, const __half* weight, __half* y, int rows)
{
    __shared__ float partials[2][WARPS];
    const int t = threadIdx.x;
    int turn = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const __half2 pair = reinterpret_cast<const __half2*>(x + row * COLS)[t];
        const float first = __low2float(pair), second = __high2float(pair);
        const float squares = lane_sum(first * first + second * second, 32);
        if (t % 32 == 0)
            partials[turn][t / 32] = squares; //~ race
        __syncthreads();
        const float total = lane_sum(partials[turn][t % WARPS], WARPS); //~| race
        const float factor = rsqrtf(total / COLS + 1e-5f);
        const float2 w = __half22float2(reinterpret_cast<const __half2*>(weight)[t]);
        reinterpret_cast<__half2*>(y + row * COLS)[t] = __floats2half2_rn(first * factor * w.x, second * factor * w.y);
    }
}
