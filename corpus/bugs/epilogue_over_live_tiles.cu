// Tiled product whose epilogue stages C in the memory of the A tile. Warps that finish early overwrite a tile that
// others still read.
// warpsmith: --arch sm_80 --kernel gemm_staged --grid 2 --block 16,16 --shared 0
// warpsmith: --arg A=f32[16,32]=normal(3) --arg B=f32[32,32]=normal(4) --arg C=out,f32[16,32]

extern "C" __global__ void gemm_staged(const float* A, const float* B, float* C)
{
    __shared__ float smem[2][16][17];
    float (*As)[17] = smem[0];
    float (*Bs)[17] = smem[1];
    const int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 16;
    float acc = 0.0f;
    for (int k0 = 0; k0 < 32; k0 += 16) {
        __syncthreads();
        As[ty][tx] = A[ty * 32 + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * 32 + col + tx];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            acc += As[ty][k] * Bs[k][tx]; //~ race
    }
    As[tx][ty] = acc; //~| race
    __syncthreads();
    C[ty * 32 + col + tx] = As[tx][ty];
}
