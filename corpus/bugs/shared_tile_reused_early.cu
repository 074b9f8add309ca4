// Tiled product. The barrier at the end of the iteration is missing: fast warps load the next tile over a tile that
// slow warps still read.
// warpsmith: --arch sm_80 --kernel gemm --grid 2,2 --block 16,16 --shared 0
// warpsmith: --arg A=f32[32,48]=normal(3) --arg B=f32[48,32]=normal(4)
// warpsmith: --arg C=out,f32[32,32] --arg N=i32=32 --arg K=i32=48

extern "C" __global__ void gemm(const float* A, const float* B, float* C, int N, int K)
{
    __shared__ float As[16][16], Bs[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = A[row * K + k0 + tx]; //~? race
        Bs[ty][tx] = B[(k0 + ty) * N + col]; //~ race
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc += As[ty][k] * Bs[k][tx]; //~| race
    }
    C[row * N + col] = acc;
}
