// 5x5 convolution with the filter in constant memory and a shared tile with halo, clamped at the borders.
// Expected: out[y][x] = sum of filter * in over the 5x5 neighbourhood, coordinates clamped.
// warpsmith: --arch sm_80 --kernel conv5 --grid 3,2 --block 16,8 --shared 0
// warpsmith: --arg in=f32[15,40]=uniform(175) --arg out=out,f32[15,40] --arg h=i32=15 --arg w=i32=40

__constant__ float filter[5][5] = {{1, 4, 6, 4, 1}, {4, 16, 24, 16, 4},
                                     {6, 24, 36, 24, 6}, {4, 16, 24, 16, 4}, {1, 4, 6, 4, 1}};

extern "C" __global__ void conv5(const float* in, float* out, int h, int w)
{
    __shared__ float tile[12][20];
    const int x0 = blockIdx.x * 16, y0 = blockIdx.y * 8;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 12 * 20; i += 128) {
        const int y = min(max(y0 + i / 20 - 2, 0), h - 1), x = min(max(x0 + i % 20 - 2, 0), w - 1);
        tile[i / 20][i % 20] = in[y * w + x];
    }
    __syncthreads();
    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x < w && y < h) {
        float sum = 0.0f;
        for (int r = 0; r < 5; ++r)
            for (int c = 0; c < 5; ++c)
                sum += filter[r][c] * tile[threadIdx.y + r][threadIdx.x + c];
        out[y * w + x] = sum * (1.0f / 256.0f);
    }
}
