// A block loops until no element changes; the whole block decides together whether an element changed.
// warpsmith: --arch sm_80 --kernel settle --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=randint(3,0,50) --arg y=out,i32[64]

extern "C" __global__ void settle(const int* x, int* y)
{
    __shared__ int s[66];
    const int t = threadIdx.x;
    s[t + 1] = x[t];
    if (t == 0) {
        s[0] = 0;
        s[65] = 0;
    }
    __syncthreads();
    for (;;) {
        const int peak = max(s[t], s[t + 2]) - 5;
        const bool change = peak > s[t + 1];
        if (!__syncthreads_or(change))
            break;
        if (change)
            s[t + 1] = peak;
        __syncthreads();
    }
    y[t] = s[t + 1];
}
