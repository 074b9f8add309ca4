// Two steps of a 5-point heat stencil inside one tile with a two-cell halo, zero outside the plate.
// Expected: v = the plate after two steps of u + k (up + down + left + right - 4u).
// warpsmith: --arch sm_80 --kernel heat2 --grid 3,4 --block 16,16 --shared 0
// warpsmith: --arg u=f32[45,33]=uniform(31) --arg v=out,f32[45,33] --arg h=i32=45 --arg w=i32=33 --arg k=f32=0.2

constexpr int T = 12; // interior; the block has T + 4 cells per side

__device__ float step(const float (&a)[16][16], int y, int x, float k)
{
    return a[y][x] + k * (a[y - 1][x] + a[y + 1][x] + a[y][x - 1] + a[y][x + 1] - 4.0f * a[y][x]);
}

extern "C" __global__ void heat2(const float* __restrict__ u, float* __restrict__ v, int h, int w, float k)
{
    __shared__ float a[16][16], b[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int x = blockIdx.x * T + tx - 2, y = blockIdx.y * T + ty - 2;
    const bool inside = x >= 0 && x < w && y >= 0 && y < h;

    a[ty][tx] = inside ? u[y * w + x] : 0.0f;
    b[ty][tx] = 0.0f;
    __syncthreads();

    if (inside && tx >= 1 && tx < 15 && ty >= 1 && ty < 15)
        b[ty][tx] = step(a, ty, tx, k);
    __syncthreads();

    if (inside && tx >= 2 && tx < 14 && ty >= 2 && ty < 14)
        v[y * w + x] = step(b, ty, tx, k);
}
