// Blocks exchange rows in turns and wait for each other once per turn: a block may write its row again while its neighbour
// still reads the row of the turn before. The order of blocks that wait for a counter must not hide this.
// warpsmith: --arch sm_80 --kernel rounds --grid 12 --block 64 --shared 0
// warpsmith: --arg x=inout,f32[768]=normal(2) --arg y=scratch,f32[768] --arg count=inout,u32[1]=zeros
__device__ void wait_for_all(unsigned* count, unsigned goal) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (*(volatile unsigned*)count < goal) {}
        __threadfence();
    }
    __syncthreads();
}
extern "C" __global__ void rounds(float* x, float* y, unsigned* count) {
    int i = blockIdx.x * 64 + threadIdx.x, n = gridDim.x * 64;
    unsigned goal = 0;
    for (int round = 0; round < 4; ++round) {
        y[i] = x[i] * 0.5f;  //~ race
        wait_for_all(count, goal += gridDim.x);
        x[i] = y[(i + 64) % n];  //~| race
    }
}
