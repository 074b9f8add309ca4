// Row sums by one warp per row: rows without entries also skip the store.
// warpsmith: --arch sm_80 --kernel row_sums --grid 2 --block 64 --shared 0
// warpsmith: --arg len=i32[12]=randint(5,0,3) --arg x=f32[12,40]=normal(3) --arg y=out,f32[12] --arg rows=i32=12

extern "C" __global__ void row_sums(const int* len, const float* x, float* y, int rows) //~ unwritten-output
{
    const int lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
    for (int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32; r < rows; r += warps) {
        const int n = len[r] * 20;
        if (n == 0)
            continue;
        float sum = 0.0f;
        for (int c = lane; c < n; c += 32)
            sum += x[r * 40 + c];
        for (int o = 16; o > 0; o >>= 1)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (lane == 0)
            y[r] = sum;
    }
}
