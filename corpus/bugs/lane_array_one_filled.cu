// Row scaling by a small table. Lane 0 fills the table for the warp, but a local array is private to its lane: the
// other 31 lanes multiply by uninitialised memory.
// warpsmith: --arch sm_80 --kernel scale_rows --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[12,40]=normal(1) --arg scales=f32[8]=uniform(2) --arg y=out,f32[12,40]
// warpsmith: --arg rows=i32=12 --arg cols=i32=40

extern "C" __global__ void scale_rows(const float* x, const float* scales, float* y, int rows, int cols)
{
    float table[8];
    const int lane = threadIdx.x & 31;
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    const int warps = (gridDim.x * blockDim.x) >> 5;

    if (lane == 0)
        for (int i = 0; i < 8; ++i)
            table[i] = scales[i];
    __syncwarp();

    for (int r = warp; r < rows; r += warps) {
        const float s = table[r & 7]; //~ uninitialised
        for (int c = lane; c < cols; c += 32)
            y[r * cols + c] = x[r * cols + c] * s; //~| uninitialised
    }
}
