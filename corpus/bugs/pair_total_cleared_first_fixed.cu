// Two blocks store one total, which depends on the place of the total only: the stores are equal.
// warpsmith: --arch sm_80 --kernel totals --grid 8 --block 32 --shared 0
// warpsmith: --arg y=out,i32[4]
extern "C" __global__ void totals(int* y) {
    int b = blockIdx.x;
    if (threadIdx.x == 0) y[b / 2] = b / 2 + 7;
}
