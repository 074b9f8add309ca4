// Threads count with atomics; a barrier separates the counting from the decision.
// warpsmith: --arch sm_80 --kernel threshold --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=randint(1,0,9) --arg y=out,i32[64]

extern "C" __global__ void threshold(const int* x, int* y)
{
    __shared__ int count;
    const int t = threadIdx.x;
    if (t == 0)
        count = 0;
    __syncthreads();
    if (x[t] > 4)
        atomicAdd(&count, 1);
    __syncthreads();
    y[t] = count > 20 ? x[t] : 0;
}
