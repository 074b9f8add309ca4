// Bitonic sort without a barrier for small strides, on the assumption that they stay within a warp. A stride of 32 does
// not, and the lanes of a warp are not ordered either.
// warpsmith: --arch sm_80 --kernel sort128 --grid 1 --block 64 --shared 0
// warpsmith: --arg keys=inout,i32[128]=randint(3,0,1000)

extern "C" __global__ void sort128(int* keys)
{
    __shared__ int s[128];
    const int t = threadIdx.x;
    s[t] = keys[t]; //~ race
    s[t + 64] = keys[t + 64]; //~| race
    for (int size = 2; size <= 128; size <<= 1)
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
            if (stride > 32)
                __syncthreads();
            const int lo = 2 * t - (t & (stride - 1)), hi = lo + stride;
            const int a = s[lo], b = s[hi]; //~| race //~? uninitialised
            if ((a > b) == ((lo & size) == 0)) { //~? uninitialised
                s[lo] = b; //~| race
                s[hi] = a; //~| race
            }
        }
    __syncthreads();
    keys[t] = s[t]; //~? uninitialised
    keys[t + 64] = s[t + 64]; //~? uninitialised
}
