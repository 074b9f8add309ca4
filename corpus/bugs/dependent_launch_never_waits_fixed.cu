// The fixed twin of dependent_launch_never_waits.cu.
// warpsmith: --arch sm_90 --kernel scale --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(1) --arg y=out,f32[128]

extern "C" __global__ void scale(const float* x, float* y)
{
    const int i = 32 * blockIdx.x + threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    const float value = 2 * x[i];
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    y[i] = value;
}
