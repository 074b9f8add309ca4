// Block 0 clears a flag before its work, and every block sets the flag when it has found a negative number. All stores of
// the last kind are equal, but another block may set the flag before block 0 clears it.
// warpsmith: --arch sm_80 --kernel find_negative --grid 6 --block 64 --shared 0
// warpsmith: --arg in=i32[384]=randint(3,-9,10) --arg found=inout,i32[1]=ones
extern "C" __global__ void find_negative(const int* in, int* found) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *found = 0;  //~ race
    int any = __syncthreads_or(in[blockIdx.x * 64 + threadIdx.x] < 0);
    if (any && threadIdx.x == 0) *found = 1;  //~| race
}
