// Each arm of a branch has its own barrier, and the lanes of a warp take different arms.
// warpsmith: --arch sm_80 --kernel exchange --grid 1 --block 64 --shared 0
// warpsmith: --arg x=i32[64]=randint(1,0,9) --arg y=out,i32[64]

extern "C" __global__ void exchange(const int* x, int* y)
{
    __shared__ int s[64];
    const int t = threadIdx.x;
    int v;
    if (x[t] > 4) {
        s[t] = x[t];
        __syncthreads(); //~ barrier-divergence
        v = s[t ^ 1] * 2; //~? race //~? uninitialised
    } else {
        s[t] = -x[t];
        __syncthreads(); //~| barrier-divergence
        v = s[t ^ 1] * 3; //~? race //~? uninitialised
    }
    y[t] = v;
}
