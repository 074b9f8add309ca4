// The host clears the flag before the launch; the blocks only set it.
// warpsmith: --arch sm_80 --kernel has_nan --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(9) --arg found=inout,i32[1]=zeros

extern "C" __global__ void has_nan(const float* x, int* found)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > -100.0f)
        *found = 1;
}
