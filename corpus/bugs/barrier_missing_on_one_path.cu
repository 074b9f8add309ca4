// A block loops until no element changes. Threads whose element does not change leave the loop and miss the barriers.
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
        const int peak = max(s[t], s[t + 2]) - 5; //~? race
        if (peak <= s[t + 1]) //~? race
            break;
        __syncthreads(); //~ barrier-divergence
        s[t + 1] = peak; //~? race
        __syncthreads(); //~| barrier-divergence
    }
    y[t] = s[t + 1]; //~? race
}
