// The first thread clears the flag, and all threads wait for that before they set it.
// warpsmith: --arch sm_80 --kernel any_above --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f32[256]=normal(3) --arg out=out,i32[2]
extern "C" __global__ void any_above(const float* x, int* out) {
    __shared__ int any;
    if (threadIdx.x == 0) any = 0;
    __syncthreads();
    if (x[blockIdx.x * 128 + threadIdx.x] > 1.f) any = 1;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = any;
}
