// Jacobi sweeps over a rod in one launch, blocks synchronised by a sense-reversing grid barrier.
// Expected: u after 6 sweeps of (left + right) / 2 with fixed ends; the two buffers swap roles, so the result is in
// u.
// warpsmith: --arch sm_80 --kernel jacobi --grid 4 --block 64 --shared 0
// warpsmith: --arg u=inout,f32[256]=uniform(154) --arg v=scratch,f32[256] --arg barrier=inout,u32[2]=zeros
// warpsmith: --arg sweeps=i32=6

__device__ void grid_barrier(unsigned* barrier)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        volatile unsigned* generation = barrier + 1;
        const unsigned mine = *generation;
        __threadfence();
        if (atomicAdd(barrier, 1u) == gridDim.x - 1) {
            atomicExch(barrier, 0u);
            __threadfence();
            *generation = mine + 1;
        } else {
            while (*generation == mine) {
            }
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void jacobi(float* u, float* v, unsigned* barrier, int sweeps)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int s = 0; s < sweeps; ++s) {
        const float* from = s & 1 ? v : u;
        float* to = s & 1 ? u : v;
        to[i] = i == 0 || i == n - 1 ? from[i] : 0.5f * (from[i - 1] + from[i + 1]);
        grid_barrier(barrier);
    }
}
