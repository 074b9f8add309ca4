// Warps exchange partial results through volatile shared memory, with no barrier between the store and the load.
// warpsmith: --arch sm_80 --kernel swap_halves --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=iota --arg y=out,i32[64]

extern "C" __global__ void swap_halves(const int* x, int* y)
{
    __shared__ volatile int s[64];
    const int t = threadIdx.x;
    s[t] = x[t] * 3; //~ race
    y[t] = s[t ^ 32]; //~| race //~? uninitialised
}
