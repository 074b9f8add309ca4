// Named barriers let three warps count one after another. The last one stores what it found.
// warpsmith: --arch sm_80 --kernel chain --grid 1 --block 96 --shared 0
// warpsmith: --arg out=out,i32[1]
extern "C" __global__ void chain(int* out) {
    __shared__ int cell;
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) cell = 0;
    __syncthreads();
    if (warp > 0) asm volatile("barrier.cta.sync %0, 64;" ::"r"(warp) : "memory");
    int found = cell;
    __syncwarp();
    if (threadIdx.x % 32 == 0) cell = found + 1;
    __syncwarp();
    if (warp < 2) asm volatile("barrier.cta.sync %0, 64;" ::"r"(warp + 1) : "memory");
    if (threadIdx.x == 64) out[0] = found;
}
