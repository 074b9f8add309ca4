// Bitonic sort with a barrier before every stride.
// warpsmith: --arch sm_80 --kernel sort128 --grid 1 --block 64 --shared 0
// warpsmith: --arg keys=inout,i32[128]=randint(3,0,1000)

extern "C" __global__ void sort128(int* keys)
{
    __shared__ int s[128];
    const int t = threadIdx.x;
    s[t] = keys[t];
    s[t + 64] = keys[t + 64];
    for (int size = 2; size <= 128; size <<= 1)
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
            __syncthreads();
            const int lo = 2 * t - (t & (stride - 1)), hi = lo + stride;
            const int a = s[lo], b = s[hi];
            if ((a > b) == ((lo & size) == 0)) {
                s[lo] = b;
                s[hi] = a;
            }
        }
    __syncthreads();
    keys[t] = s[t];
    keys[t + 64] = s[t + 64];
}
