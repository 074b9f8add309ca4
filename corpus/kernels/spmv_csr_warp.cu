// Sparse matrix times vector, CSR, one warp per row with a strided loop over its entries.
// Row pointers count in units of `stride` entries.
// Expected: y[r] = sum of val[j] * x[col[j]] over j in [rowptr[r] * stride, rowptr[r + 1] * stride).
// warpsmith: --arch sm_80 --kernel spmv --grid 5 --block 128 --shared 0
// warpsmith: --arg rowptr=i32[20]=iota --arg stride=i32=41 --arg col=i32[779]=randint(3,0,64)
// warpsmith: --arg val=f32[779]=normal(4) --arg x=f32[64]=normal(5) --arg y=out,f32[19] --arg rows=i32=19

extern "C" __global__ void spmv(const int* __restrict__ rowptr, int stride, const int* __restrict__ col,
                                const float* __restrict__ val, const float* __restrict__ x, float* y, int rows)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    const int lane = threadIdx.x % warpSize;
    if (row < rows) {
        const int begin = rowptr[row] * stride, end = rowptr[row + 1] * stride;
        float sum = 0.0f;
        for (int j = begin + lane; j < end; j += warpSize)
            sum = fmaf(val[j], x[col[j]], sum);
        sum += __shfl_down_sync(0xffffffff, sum, 16);
        sum += __shfl_down_sync(0xffffffff, sum, 8);
        sum += __shfl_down_sync(0xffffffff, sum, 4);
        sum += __shfl_down_sync(0xffffffff, sum, 2);
        sum += __shfl_down_sync(0xffffffff, sum, 1);
        if (lane == 0)
            y[row] = sum;
    }
}
