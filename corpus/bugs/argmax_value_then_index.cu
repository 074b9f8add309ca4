// Global argmax: the value is updated atomically, the index by a plain store after it, so the two may not match.
// warpsmith: --arch sm_80 --kernel argmax --grid 4 --block 32 --shared 0
// warpsmith: --arg x=i32[128]=randint(3,0,1000000) --arg best=inout,i32[1]=zeros --arg at=inout,i32[1]=zeros

extern "C" __global__ void argmax(const int* x, int* best, int* at)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    const int v = x[i];
    if (atomicMax(best, v) < v)
        *at = i; //~ race
}
