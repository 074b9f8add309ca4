// Cholesky factor of A = G G^T + 16 I in double, column by column in shared memory, one warp per matrix.
// Expected: the lower factor L with L L^T = A (upper part zero).
// warpsmith: --arch sm_80 --kernel cholesky --grid 2 --block 32 --shared 0
// warpsmith: --arg G=f64[2,16,16]=normal(215) --arg L=out,f64[2,16,16]

extern "C" __global__ void cholesky(const double* G, double* L)
{
    constexpr int N = 16;
    __shared__ double a[N][N + 1];
    const int lane = threadIdx.x;
    const double* g = G + blockIdx.x * N * N;
    for (int e = lane; e < N * N; e += 32) {
        double sum = e / N == e % N ? 16.0 : 0.0;
        for (int k = 0; k < N; ++k)
            sum += g[e / N * N + k] * g[e % N * N + k];
        a[e / N][e % N] = sum;
    }
    __syncwarp();
    for (int j = 0; j < N; ++j) {
        if (lane == j)
            a[j][j] = sqrt(a[j][j]);
        __syncwarp();
        if (lane > j && lane < N)
            a[lane][j] /= a[j][j];
        __syncwarp();
        if (lane > j && lane < N)
            for (int k = j + 1; k <= lane; ++k)
                a[lane][k] -= a[lane][j] * a[k][j];
        __syncwarp();
    }
    for (int e = lane; e < N * N; e += 32)
        L[blockIdx.x * N * N + e] = e / N >= e % N ? a[e / N][e % N] : 0.0;
}
