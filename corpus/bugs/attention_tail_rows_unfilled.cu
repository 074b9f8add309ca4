// Attention-like tile loop. Scores of keys past the end are masked to probability zero, but the rows of V past the end
// are left uninitialised in shared memory, and zero times garbage may be NaN.
// warpsmith: --arch sm_80 --kernel attend --grid 2 --block 32 --shared 0
// warpsmith: --arg q=f32[2,32]=normal(3) --arg k=f32[20,32]=normal(4) --arg v=f32[20,32]=normal(5)
// warpsmith: --arg o=out,f32[2,32] --arg keys=i32=20

extern "C" __global__ void attend(const float* q, const float* k, const float* v, float* o, int keys)
{
    __shared__ float vs[32][32];
    __shared__ float p[32];
    const int lane = threadIdx.x;
    float m = -1.0e30f, l = 0.0f, acc = 0.0f;
    for (int base = 0; base < keys; base += 32) {
        for (int r = 0; r < 32; ++r)
            if (base + r < keys)
                vs[r][lane] = v[(base + r) * 32 + lane];
        float s = -1.0e30f;
        if (base + lane < keys) {
            s = 0.0f;
            for (int d = 0; d < 32; ++d)
                s += q[blockIdx.x * 32 + d] * k[(base + lane) * 32 + d];
            s *= 0.1767767f;
        }
        float top = s;
        for (int w = 16; w > 0; w >>= 1)
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, w));
        top = fmaxf(top, m);
        p[lane] = base + lane < keys ? __expf(s - top) : 0.0f;
        float sum = p[lane];
        for (int w = 16; w > 0; w >>= 1)
            sum += __shfl_xor_sync(0xffffffffu, sum, w);
        __syncwarp();
        const float scale = __expf(m - top);
        l = l * scale + sum;
        acc *= scale;
        for (int r = 0; r < 32; ++r)
            acc += p[r] * vs[r][lane]; //~ uninitialised
        m = top;
        __syncwarp();
    }
    o[blockIdx.x * 32 + lane] = acc / l; //~| uninitialised
}
