// Warp-reduced counts with __reduce_add_sync over the lanes that take the branch.
// warpsmith: --arch sm_80 --kernel totals --grid 2 --block 32 --shared 0
// warpsmith: --arg x=u32[64]=randint(3,0,1000) --arg totals_out=inout,u32[2]=zeros
// warpsmith: --arg odd_out=out,u32[64]

extern "C" __global__ void totals(const unsigned* x, unsigned* totals_out, unsigned* odd_out)
{
    const unsigned v = x[blockIdx.x * 32 + threadIdx.x];
    const unsigned odd = __ballot_sync(0xffffffffu, v & 1);
    if (v & 1) {
        const unsigned sum = __reduce_add_sync(odd, v);
        if (threadIdx.x == __ffs(odd) - 1)
            totals_out[blockIdx.x] = sum;
    }
    odd_out[blockIdx.x * 32 + threadIdx.x] = v & 1;
}
