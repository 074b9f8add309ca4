// Three-stage cp.async ring over 16-byte copies, zero-filled tail, running sums per column.
// Expected: out[c] = sum over rows of x[r][c], rows = 37 read in tiles of 8.
// warpsmith: --arch sm_80 --kernel column_sums --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[37,32]=uniform(158) --arg out=out,f32[32] --arg rows=i32=37

extern "C" __global__ void column_sums(const float* x, float* out, int rows)
{
    __shared__ __align__(16) float ring[3][8][32];
    __shared__ float half[32];
    const int t = threadIdx.x, r = t / 8, c = t % 8 * 4;
    const int tiles = (rows + 7) / 8;
    auto fetch = [&](int tile) {
        if (tile < tiles) {
            const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(&ring[tile % 3][r][c]));
            const int row = tile * 8 + r, bytes = row < rows ? 16 : 0;
            const float* src = x + (row < rows ? row : 0) * 32 + c;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    fetch(0);
    fetch(1);
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; ++tile) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        fetch(tile + 2);
        for (int k = t / 32; k < 8; k += 2)
            sum += ring[tile % 3][k][t % 32];
    }
    if (t >= 32)
        half[t - 32] = sum;
    __syncthreads();
    if (t < 32)
        out[t] = sum + half[t];
}
