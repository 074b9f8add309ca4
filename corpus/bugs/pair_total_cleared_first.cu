// Two blocks store one total, always the same, but the first of them clears it before. The other block may have stored the
// total already. A block's own total must not hide this.
// warpsmith: --arch sm_80 --kernel totals --grid 8 --block 32 --shared 0
// warpsmith: --arg y=out,i32[4]
extern "C" __global__ void totals(int* y) {
    int b = blockIdx.x;
    if (threadIdx.x == 0 && b % 2 == 0) y[b / 2] = -1;  //~ race
    __syncthreads();
    if (threadIdx.x == 0) y[b / 2] = b / 2 + 7;  //~| race
}
