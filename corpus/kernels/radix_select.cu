// The k-th smallest of a row, byte by byte from the top: a histogram in shared memory, one thread scans it.
// Expected: out[row] = the value at position k of the sorted row.
// warpsmith: --arch sm_80 --kernel select --grid 3 --block 256 --shared 0
// warpsmith: --arg x=u32[3,1500]=randint(41,0,2000000000) --arg out=out,u32[3] --arg n=i32=1500 --arg k=i32=611

extern "C" __global__ void select(const unsigned* x, unsigned* out, int n, int k)
{
    __shared__ unsigned histogram[256];
    __shared__ unsigned prefix, wanted;
    const unsigned* row = x + blockIdx.x * n;
    if (threadIdx.x == 0) {
        prefix = 0;
        wanted = k;
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
        histogram[threadIdx.x] = 0;
        __syncthreads();
        const unsigned known = prefix;
        const unsigned mask = shift == 24 ? 0u : ~0u << (shift + 8);
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            const unsigned v = row[i];
            if ((v & mask) == known)
                atomicAdd(&histogram[v >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned left = wanted, digit = 0;
            while (left >= histogram[digit])
                left -= histogram[digit++];
            wanted = left;
            prefix = known | digit << shift;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = prefix;
}
