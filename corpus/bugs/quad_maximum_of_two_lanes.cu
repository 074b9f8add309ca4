// The maximum of a row that four lanes have. The butterfly in the loop stops one step early, so two pairs of lanes store
// different maxima.
// warpsmith: --arch sm_80 --kernel maxima --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[16,16]=normal(3) --arg y=out,f32[16] --arg steps=i32=4

extern "C" __global__ void maxima(const float* x, float* y, int steps)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 4, column = threadIdx.x % 4;
    float m = -1e30f;
    for (int i = 0; i < steps; ++i) {
        float v = x[row * 16 + 4 * i + column];
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
        m = fmaxf(m, v);
    }
    y[row] = m; //~ race
}
