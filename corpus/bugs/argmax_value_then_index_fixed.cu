// Global argmax with value and index packed in one 64-bit word.
// warpsmith: --arch sm_80 --kernel argmax --grid 4 --block 32 --shared 0
// warpsmith: --arg x=i32[128]=randint(3,0,1000000) --arg best=inout,u64[1]=zeros

extern "C" __global__ void argmax(const int* x, unsigned long long* best)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    atomicMax(best, (unsigned long long)x[i] << 32 | (unsigned)i);
}
