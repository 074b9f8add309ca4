// Rows of 65 halfs (130 bytes) staged with 16-byte copies: most rows do not start on a 16-byte boundary.
// warpsmith: --arch sm_80 --kernel stage_rows --grid 2 --block 64 --shared 0
// warpsmith: --arg in=u16[16,65]=randint(3,0,65536) --arg out=out,u16[16,64] --arg pitch=i32=65

#include <cuda_pipeline_primitives.h>

extern "C" __global__ void stage_rows(const unsigned short* in, unsigned short* out, int pitch)
{
    __shared__ __align__(16) unsigned short tile[8][72];
    const int row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    const unsigned short* src = in + (blockIdx.x * 8 + row) * pitch;
    __pipeline_memcpy_async(&tile[row][chunk * 8], src + chunk * 8, 16); //~ misaligned
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int r = 0; r < 8; ++r)
        out[(blockIdx.x * 8 + r) * 64 + threadIdx.x] = tile[r][63 - threadIdx.x]; //~? uninitialised
}
