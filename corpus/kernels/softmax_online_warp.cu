// Online softmax, one warp per row: each lane keeps a running maximum and a rescaled sum, then the lanes merge theirs.
// Expected: y[r][c] = exp(x[r][c] - max_r) / sum.
// warpsmith: --arch sm_80 --kernel softmax_online --grid 3 --block 64 --shared 0
// warpsmith: --arg x=f32[6,100]=normal(3) --arg y=out,f32[6,100] --arg cols=i32=100

extern "C" __global__ void softmax_online(const float* x, float* y, int cols)
{
    const int row = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* in = x + row * cols;
    float top = -3.0e38f, sum = 0.0f;
    for (int c = lane; c < cols; c += 32) {
        const float next = fmaxf(top, in[c]);
        sum = sum * expf(top - next) + expf(in[c] - next);
        top = next;
    }
    for (int o = 16; o > 0; o >>= 1) {
        const float other_top = __shfl_xor_sync(0xffffffffu, top, o);
        const float other_sum = __shfl_xor_sync(0xffffffffu, sum, o);
        const float next = fmaxf(top, other_top);
        sum = sum * expf(top - next) + other_sum * expf(other_top - next);
        top = next;
    }
    for (int c = lane; c < cols; c += 32)
        y[row * cols + c] = expf(in[c] - top) / sum;
}
