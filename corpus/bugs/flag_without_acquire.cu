// The producer is correct (release store of the flag). The consumer polls with a relaxed load and reads the data
// without a fence in between.
// warpsmith: --arch sm_80 --kernel message --grid 2 --block 32 --shared 0
// warpsmith: --arg x=i32[32]=iota --arg box=scratch,i32[32] --arg flag=inout,u32[1]=zeros --arg out=out,i32[32]

__device__ __forceinline__ unsigned poll(const unsigned* p)
{
    unsigned v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

extern "C" __global__ void message(const int* x, int* box, unsigned* flag, int* out)
{
    const int lane = threadIdx.x;
    if (blockIdx.x == 0) {
        box[lane] = x[lane] * 3; //~ race
        __syncwarp();
        if (lane == 0)
            asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1u) : "memory");
    } else {
        while (poll(flag) == 0) {
        }
        out[lane] = box[lane ^ 1]; //~| race //~? uninitialised
    }
}
