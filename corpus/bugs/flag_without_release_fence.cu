// Block 0 writes a table and then sets a flag for the other blocks. A fence is missing between the table and the flag,
// so a block may see the flag before the table.
// warpsmith: --arch sm_80 --kernel handover --grid 4 --block 64 --shared 0
// warpsmith: --arg x=f32[64]=normal(3) --arg table=scratch,f32[64]
// warpsmith: --arg flag=inout,u32[1]=zeros --arg out=out,f32[3,64]

extern "C" __global__ void handover(const float* x, float* table, volatile unsigned* flag, float* out)
{
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        table[t] = x[t] * x[t]; //~ race
        __syncthreads();
        if (t == 0) {
            *flag = 1;
        }
    } else {
        if (t == 0) {
            while (*flag == 0)
                __nanosleep(50);
            __threadfence();
        }
        __syncthreads();
        out[(blockIdx.x - 1) * 64 + t] = table[63 - t] + (float)blockIdx.x; //~| race //~? uninitialised
    }
}
