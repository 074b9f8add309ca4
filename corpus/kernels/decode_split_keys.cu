// One query per head against keys split over blocks; the last block of a head combines the parts (flash decoding).
// Expected: o[h] = softmax(q[h] k[h]^T / 8) v[h].
// warpsmith: --arch sm_80 --kernel decode --grid 4,3 --block 64 --shared 0
// warpsmith: --arg q=f32[3,64]=normal(42) --arg k=f32[3,150,64]=normal(43) --arg v=f32[3,150,64]=normal(44)
// warpsmith: --arg part=scratch,f32[3,4,66] --arg done=inout,u32[3]=zeros --arg o=out,f32[3,64] --arg keys=i32=150

extern "C" __global__ void decode(
    const float* q, const float* k, const float* v, float* part, unsigned* done, float* o, int keys)
{
    __shared__ float halves[2];
    __shared__ bool last;
    const int head = blockIdx.y, d = threadIdx.x;
    const int each = (keys + gridDim.x - 1) / gridDim.x;
    const int begin = blockIdx.x * each, end = min(keys, begin + each);
    const float query = q[head * 64 + d] * 0.125f;

    float top = -1e30f, sum = 0.0f, acc = 0.0f;
    for (int j = begin; j < end; ++j) {
        float score = query * k[(head * keys + j) * 64 + d];
        for (int offset = 16; offset; offset /= 2)
            score += __shfl_xor_sync(0xffffffffu, score, offset);
        if (d % 32 == 0)
            halves[d / 32] = score;
        __syncthreads();
        score = halves[0] + halves[1];
        __syncthreads();
        const float next = fmaxf(top, score);
        const float keep = expf(top - next), weight = expf(score - next);
        sum = sum * keep + weight;
        acc = acc * keep + weight * v[(head * keys + j) * 64 + d];
        top = next;
    }

    float* mine = part + (head * gridDim.x + blockIdx.x) * 66;
    mine[d] = acc;
    if (d == 0) {
        mine[64] = top;
        mine[65] = sum;
    }
    __threadfence();
    __syncthreads();
    if (d == 0)
        last = atomicAdd(&done[head], 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    const float* all = part + head * gridDim.x * 66;
    float most = -1e30f, total = 0.0f, joined = 0.0f;
    for (int s = 0; s < gridDim.x; ++s)
        most = fmaxf(most, __ldcg(all + s * 66 + 64));
    for (int s = 0; s < gridDim.x; ++s) {
        const float scale = expf(__ldcg(all + s * 66 + 64) - most);
        total += scale * __ldcg(all + s * 66 + 65);
        joined += scale * __ldcg(all + s * 66 + d);
    }
    o[head * 64 + d] = joined / total;
}
