// Only threads whose test succeeds set the flag, all to the same constant.
// warpsmith: --arch sm_80 --kernel any_above --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=uniform(3) --arg limit=f32=2 --arg found=inout,i32[1]=zeros

extern "C" __global__ void any_above(const float* x, float limit, int* found)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > limit)
        *found = 1;
}
