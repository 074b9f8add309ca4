// The fixed twin of vote_of_block_after_exit.cu.
// warpsmith: --arch sm_80 --kernel relax --grid 2 --block 64 --shared 0
// warpsmith: --arg x=inout,f32[100]=uniform(3) --arg n=i32=100

extern "C" __global__ void relax(float* x, int n)
{
    const int i = 64 * blockIdx.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    while (__syncthreads_or(v > 0.1f))
        v *= 0.5f;
    if (i < n)
        x[i] = v;
}
