// Bitonic sort of 512 keys in shared memory, one block per segment, two keys per thread.
// Expected: every segment of 512 keys in ascending order.
// warpsmith: --arch sm_80 --kernel bitonic --grid 2 --block 256 --shared 2048
// warpsmith: --arg keys=inout,i32[2,512]=randint(17,-100000,100000)

extern __shared__ int s[];

extern "C" __global__ void __launch_bounds__(256) bitonic(int* keys)
{
    int* mine = keys + blockIdx.x * 512;
    s[threadIdx.x] = mine[threadIdx.x];
    s[threadIdx.x + 256] = mine[threadIdx.x + 256];

    for (unsigned size = 2; size <= 512; size <<= 1) {
        for (unsigned stride = size >> 1; stride > 0; stride >>= 1) {
            __syncthreads();
            const unsigned lo = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            const unsigned hi = lo + stride;
            const bool up = (lo & size) == 0;
            const int p = s[lo], q = s[hi];
            if ((p > q) == up) {
                s[lo] = q;
                s[hi] = p;
            }
        }
    }
    __syncthreads();
    mine[threadIdx.x] = s[threadIdx.x];
    mine[threadIdx.x + 256] = s[threadIdx.x + 256];
}
