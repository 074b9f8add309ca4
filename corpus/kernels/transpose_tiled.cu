// Transpose through a padded 32x33 shared tile, 32x8 threads, ragged edges.
// Expected: out[c][r] = in[r][c].
// warpsmith: --arch sm_75 --kernel transpose --grid 3,2 --block 32,8 --shared 0
// warpsmith: --arg in=f32[50,75]=normal(5) --arg out=out,f32[75,50] --arg rows=i32=50 --arg cols=i32=75

constexpr int TILE = 32;

extern "C" __global__ void transpose(const float* __restrict__ in, float* __restrict__ out, int rows, int cols)
{
    __shared__ float tile[TILE][TILE + 1];

    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += blockDim.y)
        if (x < cols && y + j < rows)
            tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
    __syncthreads();

    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += blockDim.y)
        if (x < rows && y + j < cols)
            out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}
