// One query per block. A barrier separates the search for the maximum from the exponentials.
// warpsmith: --arch sm_80 --kernel attend --grid 2 --block 64 --shared 0
// warpsmith: --arg q=f32[2,32]=normal(1) --arg k=f32[64,32]=normal(2) --arg v=f32[64,32]=normal(3) --arg o=out,f32[2,32]

extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o)
{
    __shared__ float score[64];
    const int t = threadIdx.x;
    float dot = 0.0f;
    for (int d = 0; d < 32; ++d)
        dot += q[blockIdx.x * 32 + d] * k[t * 32 + d];
    score[t] = dot * 0.17677669f;
    __syncthreads();
    float top = score[0];
    for (int j = 1; j < 64; ++j)
        top = fmaxf(top, score[j]);
    __syncthreads();
    score[t] = __expf(score[t] - top);
    __syncthreads();
    if (t < 32) {
        float sum = 0.0f, out = 0.0f;
        for (int j = 0; j < 64; ++j) {
            sum += score[j];
            out += score[j] * v[j * 32 + t];
        }
        o[blockIdx.x * 32 + t] = out / sum;
    }
}
