// A 16 x 4 block stages a tile with threadIdx.x as the whole index: the four rows of threads overwrite each other.
// warpsmith: --arch sm_80 --kernel stage --grid 2 --block 16,4 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg y=out,f32[128]

extern "C" __global__ void stage(const float* x, float* y)
{
    __shared__ float s[64];
    const int flat = threadIdx.y * blockDim.x + threadIdx.x;
    s[threadIdx.x] = x[blockIdx.x * 64 + flat]; //~ race
    __syncthreads();
    y[blockIdx.x * 64 + flat] = s[63 - flat]; //~? uninitialised
}
