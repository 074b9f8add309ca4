// Lower bound by bisection that moves the lower end past the middle.
// warpsmith: --arch sm_80 --kernel lower_bound --grid 2 --block 32 --shared 0
// warpsmith: --arg sorted=i32[100]=iota --arg keys=i32[64]=randint(3,0,120) --arg at=out,i32[64] --arg n=i32=100

extern "C" __global__ void lower_bound(const int* sorted, const int* keys, int* at, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int key = keys[i];
    int lo = 0, hi = n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (sorted[mid] < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    at[i] = lo;
}
