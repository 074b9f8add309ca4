// Device printf: integers, floats, strings, %% and 64-bit values, from one thread per block.
// Expected: per block b the line "block b of 3: sum=S mean=M.MMM name=NAME big=BBB 100%"; out[b] = S.
// warpsmith: --arch sm_80 --kernel report --grid 3 --block 32 --shared 0
// warpsmith: --arg in=i32[96]=randint(164,0,100) --arg out=out,i32[3]

extern "C" __global__ void report(const int* in, int* out)
{
    int v = in[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, o);
    if (threadIdx.x == 0) {
        const char* name = blockIdx.x == 0 ? "first" : blockIdx.x == 1 ? "middle" : "last";
        printf("block %d of %u: sum=%d mean=%.3f name=%s big=%llu 100%%\n", blockIdx.x, gridDim.x, v, v / 32.0, name,
               (unsigned long long)v << 33);
        out[blockIdx.x] = v;
    }
}
