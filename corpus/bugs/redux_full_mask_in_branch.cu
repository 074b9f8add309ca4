// Warp-reduced counts with __reduce_add_sync in a branch, with a mask of all lanes.
// warpsmith: --arch sm_80 --kernel totals --grid 2 --block 32 --shared 0
// warpsmith: --arg x=u32[64]=randint(3,0,1000) --arg totals_out=inout,u32[2]=zeros
// warpsmith: --arg odd_out=out,u32[64]

extern "C" __global__ void totals(const unsigned* x, unsigned* totals_out, unsigned* odd_out)
{
    const unsigned v = x[blockIdx.x * 32 + threadIdx.x];
    if (v & 1) {
        const unsigned sum = __reduce_add_sync(0xffffffffu, v); //~ warp-mask
        if (threadIdx.x == __ffs(__activemask()) - 1)
            totals_out[blockIdx.x] = sum;
    }
    odd_out[blockIdx.x * 32 + threadIdx.x] = v & 1;
}
