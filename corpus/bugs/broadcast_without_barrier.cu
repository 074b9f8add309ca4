// Thread 0 computes the block's offset and stores it in shared memory; the others read it without a barrier in between.
// warpsmith: --arch sm_80 --kernel append --grid 4 --block 64 --shared 0
// warpsmith: --arg x=i32[256]=randint(3,0,100) --arg cursor=inout,i32[1]=zeros --arg out=out,i32[256]

extern "C" __global__ void append(const int* x, int* cursor, int* out)
{
    __shared__ int offset;
    const int t = threadIdx.x;
    if (t == 0)
        offset = atomicAdd(cursor, 64); //~ race
    out[offset + t] = x[blockIdx.x * 64 + t]; //~| race //~? uninitialised //~? out-of-bounds //~? unwritten-output
}
