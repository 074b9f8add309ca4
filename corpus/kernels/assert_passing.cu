// A kernel full of assert and a __trap on a path that is never taken.
// Expected: out[i] = 100 / divisor[i], and no assertion fires.
// warpsmith: --arch sm_80 --kernel guarded --grid 2 --block 32 --shared 0
// warpsmith: --arg divisor=i32[64]=randint(249,1,20) --arg out=out,i32[64] --arg n=i32=64

extern "C" __global__ void guarded(const int* divisor, int* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(i < n);
    const int d = divisor[i];
    assert(d != 0 && "division by zero");
    if (d < 0)
        __trap();
    out[i] = 100 / d;
}
