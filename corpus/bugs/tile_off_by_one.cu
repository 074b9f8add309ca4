// Tiled product whose tile loop runs one iteration too many: K/TILE + 1 tiles, the last past the end of both matrices.
// warpsmith: --arch sm_80 --kernel gemm --grid 2,2 --block 16,16 --shared 0
// warpsmith: --arg A=f32[32,64]=normal(3) --arg B=f32[64,32]=normal(4)
// warpsmith: --arg C=out,f32[32,32] --arg N=i32=32 --arg K=i32=64

extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K)
{
    __shared__ float As[16][16], Bs[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 <= K; k0 += 16) {
        As[ty][tx] = A[row * K + k0 + tx]; //~ out-of-bounds
        Bs[ty][tx] = B[(k0 + ty) * N + col]; //~| out-of-bounds
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc += As[ty][k] * Bs[k][tx]; //~? uninitialised
        __syncthreads();
    }
    C[row * N + col] = acc; //~? uninitialised
}
