// Adds each number to that of its neighbour through shared memory. Threads beyond the end of the data return before the
// barrier. GPUs do not wait for them, but CUDA requires that all threads of the block reach it: a warning.
// warpsmith: --arch sm_80 --kernel add_neighbour --grid 2 --block 64 --shared 0
// warpsmith: --arg in=f32[100]=normal(4) --arg out=out,f32[100] --arg n=i32=100
extern "C" __global__ void add_neighbour(const float* in, float* out, int n) {
    __shared__ float tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    tile[threadIdx.x] = in[i];
    __syncthreads();  //~ barrier-divergence
    out[i] = tile[threadIdx.x] + tile[threadIdx.x ^ 1];
}
