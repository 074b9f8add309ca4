// The first thread clears the flag, and only its warp waits for that. Lanes of this warp then store the same value as all
// others, but the flag may be cleared after another warp has set it.
// warpsmith: --arch sm_80 --kernel any_above --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f32[256]=normal(3) --arg out=out,i32[2]
extern "C" __global__ void any_above(const float* x, int* out) {
    __shared__ int any;
    if (threadIdx.x == 0) any = 0;  //~ race
    __syncwarp();
    if (x[blockIdx.x * 128 + threadIdx.x] > 1.f) any = 1;  //~| race
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = any;
}
