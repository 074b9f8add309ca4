// Merge of two sorted lists: each thread finds its diagonal by binary search and merges seven elements.
// The lists are the running totals of non-negative steps, computed in the kernel, so that they are sorted.
// Expected: the sorted union of the prefix sums of a and of b.
// warpsmith: --arch sm_80 --kernel merge --grid 1 --block 64 --shared 0
// warpsmith: --arg a=i32[200]=randint(228,0,9) --arg b=i32[248]=randint(229,0,7) --arg out=out,i32[448]

constexpr int NA = 200, NB = 248, PER = 7;

__device__ void running_totals(int* s, const int* in, int n)
{
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < n; ++i)
            s[i] = sum += in[i];
    }
}

extern "C" __global__ void merge(const int* a, const int* b, int* out)
{
    __shared__ int sa[NA], sb[NB];
    running_totals(sa, a, NA);
    running_totals(sb, b, NB);
    __syncthreads();
    const int diagonal = threadIdx.x * PER;
    int lo = max(0, diagonal - NB), hi = min(diagonal, NA);
    while (lo < hi) {
        const int mid = (lo + hi) >> 1;
        if (sa[mid] <= sb[diagonal - 1 - mid])
            lo = mid + 1;
        else
            hi = mid;
    }
    int i = lo, j = diagonal - lo;
    for (int k = 0; k < PER; ++k) {
        const bool take_a = j >= NB || (i < NA && sa[i] <= sb[j]);
        out[diagonal + k] = take_a ? sa[i++] : sb[j++];
    }
}
