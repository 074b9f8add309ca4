// Decoding attention with grouped queries: two query heads share a key-value head; one warp per query head.
// Expected: o[h] = softmax(q[h] K^T / sqrt(32)) V with the keys and values of head h / 2.
// warpsmith: --arch sm_80 --kernel decode --grid 2 --block 64 --shared 0
// warpsmith: --arg q=f32[4,32]=normal(1) --arg k=f32[2,40,32]=normal(2) --arg v=f32[2,40,32]=normal(3) --arg o=out,f32[4,32]

extern "C" __global__ void decode(const float* q, const float* k, const float* v, float* o)
{
    __shared__ float score[2][40];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.x * 2 + warp;
    const float* keys = k + blockIdx.x * 40 * 32;
    const float* values = v + blockIdx.x * 40 * 32;
    for (int j = 0; j < 40; ++j) {
        float dot = q[head * 32 + lane] * keys[j * 32 + lane];
        for (int step = 16; step > 0; step >>= 1)
            dot += __shfl_xor_sync(0xffffffffu, dot, step);
        if (lane == 0)
            score[warp][j] = dot * 0.17677669529f;
    }
    __syncwarp();
    float top = -3.0e38f;
    for (int j = 0; j < 40; ++j)
        top = fmaxf(top, score[warp][j]);
    float sum = 0.0f, out = 0.0f;
    for (int j = 0; j < 40; ++j) {
        const float p = expf(score[warp][j] - top);
        sum += p;
        out += p * values[j * 32 + lane];
    }
    o[head * 32 + lane] = out / sum;
}
