// The mask names exactly the lanes that take the branch.
// warpsmith: --arch sm_80 --kernel neighbour_diff --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg out=out,f32[128] --arg width=i32=20

extern "C" __global__ void neighbour_diff(const float* x, float* out, int width)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    float d = x[i];
    const unsigned mask = __ballot_sync(0xffffffffu, lane < width);
    if (lane < width) {
        const float left = __shfl_up_sync(mask, d, 1);
        if (lane > 0)
            d -= left;
    }
    out[i] = d;
}
