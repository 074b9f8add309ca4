// One smoothing step in place in global memory: a block reads cells that its neighbour overwrites.
// warpsmith: --arch sm_80 --kernel smooth --grid 4 --block 64 --shared 0
// warpsmith: --arg u=inout,f32[256]=normal(3) --arg n=i32=256

extern "C" __global__ void smooth(float* u, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float left = i > 0 ? u[i - 1] : 0.0f; //~ race
    const float right = i + 1 < n ? u[i + 1] : 0.0f; //~| race
    const float here = u[i];
    __syncthreads();
    u[i] = 0.25f * left + 0.5f * here + 0.25f * right; //~| race
}
