// Dynamic shared memory divided into 33 floats, a pad, and then doubles.
// warpsmith: --arch sm_80 --kernel moments --grid 1 --block 32 --shared 400
// warpsmith: --arg x=f32[33]=normal(3) --arg y=out,f64[32]

extern "C" __global__ void moments(const float* x, double* y)
{
    extern __shared__ float values[];
    double* squares = reinterpret_cast<double*>(values + 34);
    const int lane = threadIdx.x;
    values[lane] = x[lane];
    if (lane == 0)
        values[32] = x[32];
    __syncwarp();
    squares[lane] = (double)values[lane] * values[lane + 1];
    __syncwarp();
    y[lane] = squares[31 - lane];
}
