// Threads past the end store a default and return before the barrier of the block; the others go on.
// Expected: y = reversed tile of x for the first 80 elements, -1 beyond.
// warpsmith: --arch sm_80 --kernel reverse --grid 2 --block 64 --shared 0
// warpsmith: --arg x=i32[128]=iota --arg y=out,i32[128] --arg n=i32=80

extern "C" __global__ void reverse(const int* x, int* y, int n)
{
    __shared__ int s[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i >= n) {
        y[i] = -1;
        return;
    }
    s[t] = x[i];
    __syncthreads();
    const int count = min(64, n - blockIdx.x * 64);
    y[i] = s[count - 1 - t] * 10;
}
