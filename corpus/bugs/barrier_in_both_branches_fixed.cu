// Both arms of the branch share one barrier.
// warpsmith: --arch sm_80 --kernel exchange --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=randint(1,0,9) --arg y=out,i32[64]

extern "C" __global__ void exchange(const int* x, int* y)
{
    __shared__ int s[64];
    const int t = threadIdx.x;
    s[t] = x[t] > 4 ? x[t] : -x[t];
    __syncthreads();
    y[t] = s[t ^ 1] * (x[t] > 4 ? 2 : 3);
}
