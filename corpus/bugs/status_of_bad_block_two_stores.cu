// Every block reports that it is done with 1. A thread that finds a certain number reports 2 in the same word.
// warpsmith: --arch sm_80 --kernel verify --grid 6 --block 32 --shared 0
// warpsmith: --arg x=f32[192]=iota --arg status=inout,i32[1]=zeros --arg limit=f32=100

extern "C" __global__ void verify(const float* x, int* status, float limit)
{
    const float v = x[blockIdx.x * 32 + threadIdx.x];
    if (v == limit) {
        *(volatile int*)status = 2; //~ race
    }
    if (threadIdx.x == 7)
        *status = 1; //~| race
}
