// Every block sets a flag when it has found a negative number. The host clears the flag before the launch. All stores are
// equal.
// warpsmith: --arch sm_80 --kernel find_negative --grid 6 --block 64 --shared 0
// warpsmith: --arg in=i32[384]=randint(3,-9,10) --arg found=inout,i32[1]=zeros
extern "C" __global__ void find_negative(const int* in, int* found) {
    int any = __syncthreads_or(in[blockIdx.x * 64 + threadIdx.x] < 0);
    if (any && threadIdx.x == 0) *found = 1;
}
