// Transpose through an 8 x 32 tile, with the threads' indices recomputed for the second half.
// warpsmith: --arch sm_80 --kernel transpose --grid 2,4 --block 32,8 --shared 0
// warpsmith: --arg in=f32[32,64]=normal(3) --arg out=out,f32[64,32] --arg rows=i32=32 --arg cols=i32=64

extern "C" __global__ void transpose(const float* in, float* out, int rows, int cols)
{
    __shared__ float tile[8][33];
    const int x = blockIdx.x * 32, y = blockIdx.y * 8;
    tile[threadIdx.y][threadIdx.x] = in[(y + threadIdx.y) * cols + x + threadIdx.x];
    __syncthreads();
    const int flat = threadIdx.y * 32 + threadIdx.x;
    const int r = flat % 8, c = flat / 8;
    out[(x + c) * rows + y + r] = tile[r][c];
}
