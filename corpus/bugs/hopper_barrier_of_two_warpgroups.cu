// Hopper: two warpgroups add up their own values, and both use barrier 1. A warp of one can take the place of a warp of
// the other.
// warpsmith: --arch sm_90a --kernel sums --grid 1 --block 256 --shared 0
// warpsmith: --arg x=f32[256]=normal(1) --arg y=out,f32[256]

extern "C" __global__ void __launch_bounds__(256, 1) sums(const float* x, float* y)
{
    __shared__ float parts[2][4];
    const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32;
    float sum = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    parts[group][warp] = sum; //~? race
    asm volatile("bar.sync 1, 128;" ::: "memory"); //~ barrier-count
    y[threadIdx.x] = parts[group][0] + parts[group][1] + parts[group][2] + parts[group][3]; //~? race
}
