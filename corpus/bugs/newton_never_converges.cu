// Integer square root by Newton steps until two agree: for some inputs the steps alternate between two values for ever.
// warpsmith: --arch sm_80 --kernel isqrt --grid 1 --block 64 --shared 0
// warpsmith: --arg x=u32[64]=randint(3,1,64) --arg root=out,u32[64]

extern "C" __global__ void isqrt(const unsigned* x, unsigned* root)
{
    const unsigned v = x[threadIdx.x];
    unsigned r = v / 2 + 1;
    for (;;) { //~ runaway
        const unsigned next = (r + v / r) / 2; //~| runaway
        if (next == r) //~| runaway
            break; //~| runaway
        r = next; //~| runaway
    }
    root[threadIdx.x] = r; //~? unwritten-output
}
