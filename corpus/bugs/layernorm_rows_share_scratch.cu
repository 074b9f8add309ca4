// Two rows per block, one per threadIdx.y. The partial sums of both rows use the same scratch words.
// warpsmith: --arch sm_80 --kernel layer_norm --grid 2 --block 64,2 --shared 0
// warpsmith: --arg x=f32[4,64]=normal(6) --arg y=out,f32[4,64]

extern "C" __global__ void layer_norm(const float* x, float* y)
{
    __shared__ float scratch[2][2];
    const int row = blockIdx.x * 2 + threadIdx.y, c = threadIdx.x, warp = c / 32;
    const float v = x[row * 64 + c];
    float sum = v, squares = v * v;
    for (int o = 16; o > 0; o >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
        squares += __shfl_xor_sync(0xffffffffu, squares, o);
    }
    __shared__ float total[2][2];
    if (c % 32 == 0) {
        scratch[0][warp] = sum; //~ race
        total[threadIdx.y][warp] = squares;
    }
    __syncthreads();
    const float mean = (scratch[0][0] + scratch[0][1]) / 64;
    const float variance = (total[threadIdx.y][0] + total[threadIdx.y][1]) / 64 - mean * mean;
    y[row * 64 + c] = (v - mean) * rsqrtf(variance + 1e-5f);
}
