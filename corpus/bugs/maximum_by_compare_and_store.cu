// A maximum over the grid by a plain comparison and store. The order-preserving bits of a float are its key.
// warpsmith: --arch sm_80 --kernel largest_key --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=normal(1) --arg y=out,u32[128] --arg key=inout,u32[1]=zeros

extern "C" __global__ void largest_key(const float* x, unsigned* y, unsigned* key)
{
    union { float f; unsigned u; } bits;
    bits.f = x[blockIdx.x * 64 + threadIdx.x];
    const unsigned order = bits.u & 0x80000000u ? ~bits.u : bits.u | 0x80000000u;
    y[blockIdx.x * 64 + threadIdx.x] = order;
    if (order > *key) //~ race
        *key = order; //~| race
}
