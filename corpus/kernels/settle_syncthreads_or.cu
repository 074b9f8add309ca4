// Barriers with a vote: a block iterates until __syncthreads_or reports no change, counts with __syncthreads_count,
// and checks with __syncthreads_and. The number of iterations depends on the data but is the same for the whole
// block.
// Expected: y = x raised to at least (left or right neighbour - 5); trips[b] and high[b] count sweeps and cells above
// 20.
// warpsmith: --arch sm_80 --kernel settle --grid 3 --block 64 --shared 0
// warpsmith: --arg x=i32[192]=randint(253,0,60) --arg y=out,i32[192] --arg trips=out,i32[3] --arg high=out,i32[3]

extern "C" __global__ void settle(const int* x, int* y, int* trips, int* high)
{
    __shared__ int s[66];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t + 1] = x[i];
    if (t < 2)
        s[t * 65] = -1000;
    __syncthreads();
    int n = 0;
    for (;; ++n) {
        const int raised = max(s[t], s[t + 2]) - 5;
        const bool change = raised > s[t + 1];
        if (!__syncthreads_or(change))
            break;
        if (change)
            s[t + 1] = raised;
        __syncthreads();
    }
    const int count = __syncthreads_count(s[t + 1] > 20);
    const int sane = __syncthreads_and(s[t + 1] >= x[i]);
    y[i] = s[t + 1];
    if (t == 0) {
        trips[blockIdx.x] = n;
        high[blockIdx.x] = sane ? count : -1;
    }
}
