// Two warps synchronise with a count of 48. A barrier counts whole warps, so 48 is not a valid count.
// warpsmith: --arch sm_80 --kernel pair_swap --grid 1 --block 128 --shared 0
// warpsmith: --arg in=i32[128]=iota --arg out=out,i32[128]

extern "C" __global__ void pair_swap(const int* in, int* out)
{
    __shared__ int s[128];
    const int t = threadIdx.x, pair = t / 64;
    s[t] = in[t]; //~? race
    const int parties = blockDim.x - 80;
    asm volatile("bar.sync %0, %1;" ::"r"(pair + 1), "r"(parties) : "memory"); //~ barrier-count //~| deadlock
    out[t] = s[t ^ 63]; //~? race //~? uninitialised
}
