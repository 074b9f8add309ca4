// The textbook 16x16 tiled f32 product, with sizes that are not multiples of the tile.
// Expected: C = A B, A [40,53], B [53,37], within f32 rounding.
// warpsmith: --arch sm_80 --kernel sgemm --grid 3,3 --block 16,16 --shared 0
// warpsmith: --arg A=f32[40,53]=normal(21) --arg B=f32[53,37]=normal(22) --arg C=out,f32[40,37]
// warpsmith: --arg M=i32=40 --arg N=i32=37 --arg K=i32=53

#define TILE 16

extern "C" __global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        const int ak = t * TILE + threadIdx.x;
        const int bk = t * TILE + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = row < M && ak < K ? A[row * K + ak] : 0.0f;
        Bs[threadIdx.y][threadIdx.x] = bk < K && col < N ? B[bk * N + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = acc;
}
