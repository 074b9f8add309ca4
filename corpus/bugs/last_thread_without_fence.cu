// The last thread to count itself adds what all threads wrote, with no fence around the counter.
// warpsmith: --arch sm_80 --kernel last_adds --grid 2 --block 64 --shared 0
// warpsmith: --arg x=i32[128]=randint(1,0,9) --arg part=scratch,i32[128] --arg sums=out,i32[2]

extern "C" __global__ void last_adds(const int* x, int* part, int* sums)
{
    __shared__ int done;
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (t == 0)
        done = 0;
    __syncthreads();
    part[i] = x[i] * 3; //~ race
    if (atomicAdd(&done, 1) == 63) {
        int sum = 0;
        for (int j = 0; j < 64; ++j)
            sum += part[blockIdx.x * 64 + j]; //~| race
        sums[blockIdx.x] = sum;
    }
}
