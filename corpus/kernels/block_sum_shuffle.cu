// Sum of a vector by warp shuffles, one partial per block; n is not a multiple of the block size.
// Expected: sums[b] = the sum of the elements whose 1024-wide stripe belongs to block b.
// warpsmith: --arch sm_80 --kernel block_sum --grid 4 --block 256 --shared 0
// warpsmith: --arg in=f32[4001]=normal(7) --arg sums=out,f32[4] --arg n=i32=4001

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, offset);
    return v;
}

extern "C" __global__ void block_sum(const float* __restrict__ in, float* __restrict__ sums, int n)
{
    __shared__ float partial[32];
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;

    float v = 0.0f;
    const int begin = blockIdx.x * blockDim.x * 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = begin + k * blockDim.x + threadIdx.x;
        if (i < n)
            v += in[i];
    }
    v = warp_sum(v);
    if (lane == 0)
        partial[warp] = v;
    __syncthreads();
    if (warp == 0) {
        v = lane < warps ? partial[lane] : 0.0f;
        v = warp_sum(v);
        if (lane == 0)
            sums[blockIdx.x] = v;
    }
}
