// Converts rows of odd length to half, two numbers at a time. The second half of the last pair of a row is not set, and goes
// to the first number of the next row, which another thread has written or will write, or to the end of an updated buffer.
// warpsmith: --arch sm_80 --kernel convert --grid 1 --block 32 --shared 0
// warpsmith: --arg x=f32[31]=normal(3) --arg y=inout,f16[32]=zeros --arg n=i32=31

#include <cuda_fp16.h>
extern "C" __global__ void convert(const float* x, __half2* y, int n)
{
    const int i = 2 * threadIdx.x;
    if (i >= n) return;
    __half2 pair;
    pair.x = __float2half(x[i]);
    if (i + 1 < n) pair.y = __float2half(x[i + 1]);
    y[threadIdx.x] = pair; //~ uninitialised
}
