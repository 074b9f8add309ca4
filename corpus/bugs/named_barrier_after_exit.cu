// The last warp returns early. The barrier of the rest counts its threads too, and waits for ever.
// warpsmith: --arch sm_80 --kernel sums --grid 2 --block 128 --shared 0
// warpsmith: --arg x=f32[192]=normal(1) --arg y=out,f32[192]

extern "C" __global__ void sums(const float* x, float* y)
{
    __shared__ float s[96];
    const int t = threadIdx.x;
    if (t >= 96) return;
    s[t] = x[96 * blockIdx.x + t];
    asm volatile("bar.sync 1, 128;" ::: "memory"); //~ deadlock
    y[96 * blockIdx.x + t] = s[95 - t]; //~? race
} //~? unwritten-output
