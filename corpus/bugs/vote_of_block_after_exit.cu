// Iterates until all threads of the block have converged. Threads without an element have returned.
// warpsmith: --arch sm_80 --kernel relax --grid 2 --block 64 --shared 0
// warpsmith: --arg x=inout,f32[100]=uniform(3) --arg n=i32=100

extern "C" __global__ void relax(float* x, int n)
{
    const int i = 64 * blockIdx.x + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i];
    while (__syncthreads_or(v > 0.1f)) //~ barrier-divergence
        v *= 0.5f;
    x[i] = v;
}
