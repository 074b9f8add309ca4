// The host clears the total before the launch; the blocks only add to it.
// warpsmith: --arch sm_80 --kernel grand_total --grid 6 --block 64 --shared 0
// warpsmith: --arg x=i32[384]=randint(2,0,100) --arg total=inout,i32[1]=zeros

extern "C" __global__ void grand_total(const int* x, int* total)
{
    __shared__ int sum;
    const int t = threadIdx.x;
    if (t == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, x[blockIdx.x * blockDim.x + t]);
    __syncthreads();
    if (t == 0) {
        atomicAdd(total, sum);
    }
}
