// The mask names all 32 lanes, but the shuffle is in a branch that only the first 20 lanes take.
// warpsmith: --arch sm_80 --kernel neighbour_diff --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg out=out,f32[128] --arg width=i32=20

extern "C" __global__ void neighbour_diff(const float* x, float* out, int width)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    float d = x[i];
    if (lane < width) {
        const float left = __shfl_up_sync(0xffffffffu, d, 1); //~ warp-mask
        if (lane > 0)
            d -= left;
    }
    out[i] = d;
}
