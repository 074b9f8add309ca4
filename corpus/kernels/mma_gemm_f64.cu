// mma.sync m8n8k4 in double, one warp per 8x8 tile.
// Expected: C = A B within f64 rounding, K = 12.
// warpsmith: --arch sm_80 --kernel mma_f64 --grid 2,1 --block 32 --shared 0
// warpsmith: --arg A=f64[8,12]=normal(128) --arg B=f64[12,16]=normal(129) --arg C=out,f64[8,16]

extern "C" __global__ void mma_f64(const double* A, const double* B, double* C)
{
    const int lane = threadIdx.x, group = lane / 4, quad = lane % 4, col = blockIdx.x * 8;
    double c0 = 0.0, c1 = 0.0;
    for (int k = 0; k < 12; k += 4)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(c0), "+d"(c1)
                     : "d"(A[group * 12 + k + quad]), "d"(B[(k + quad) * 16 + col + group]));
    C[group * 16 + col + quad * 2] = c0;
    C[group * 16 + col + quad * 2 + 1] = c1;
}
