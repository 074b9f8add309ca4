// Odd-even transposition sort with one barrier per pair of phases: the odd phase starts while the even phase still runs.
// warpsmith: --arch sm_80 --kernel sort --grid 1 --block 64 --shared 0
// warpsmith: --arg keys=inout,i32[128]=randint(6,0,1000)

__device__ void order(int* s, int i)
{
    const int a = s[i], b = s[i + 1]; //~ race
    s[i] = min(a, b); //~| race
    s[i + 1] = max(a, b); //~| race
}

extern "C" __global__ void sort(int* keys)
{
    __shared__ int s[128];
    const int t = threadIdx.x;
    s[t] = keys[t];
    s[t + 64] = keys[t + 64];
    __syncthreads();
    for (int phase = 0; phase < 64; ++phase) {
        order(s, 2 * t);
        if (t < 63)
            order(s, 2 * t + 1);
        __syncthreads();
    }
    keys[t] = s[t];
    keys[t + 64] = s[t + 64];
}
