// Bitonic sort: only the lower thread of a pair compares and swaps it.
// warpsmith: --arch sm_80 --kernel sort --grid 2 --block 128 --shared 0
// warpsmith: --arg keys=inout,i32[2,128]=randint(5,0,1000)

extern "C" __global__ void sort(int* keys)
{
    __shared__ int s[128];
    const int t = threadIdx.x;
    s[t] = keys[blockIdx.x * 128 + t];
    for (int size = 2; size <= 128; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            const int other = t ^ step, low = min(t, other), high = max(t, other);
            const bool up = (t & size) == 0;
            if (other > t && (s[low] > s[high]) == up) {
                const int key = s[low];
                s[low] = s[high];
                s[high] = key;
            }
        }
    __syncthreads();
    keys[blockIdx.x * 128 + t] = s[t];
}
