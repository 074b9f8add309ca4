// The fixed twin of status_of_bad_block_two_stores.cu.
// warpsmith: --arch sm_80 --kernel verify --grid 6 --block 32 --shared 0
// warpsmith: --arg x=f32[192]=iota --arg status=inout,i32[1]=zeros --arg limit=f32=100

extern "C" __global__ void verify(const float* x, int* status, float limit)
{
    const float v = x[blockIdx.x * 32 + threadIdx.x];
    if (v == limit) {
        atomicMax(status, 2);
    }
    if (threadIdx.x == 7)
        atomicMax(status, 1);
}
