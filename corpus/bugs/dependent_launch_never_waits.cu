// A kernel of a chain of dependent launches lets the next kernel start early, but does not wait for the kernel before it.
// warpsmith: --arch sm_90 --kernel scale --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(1) --arg y=out,f32[128]

extern "C" __global__ void scale(const float* x, float* y)
{
    const int i = 32 * blockIdx.x + threadIdx.x;
    const float value = 2 * x[i];
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); //~ race
    y[i] = value;
}
