// Batch statistics by Welford's method: running mean and variance per thread, merged by shuffles and shared memory.
// Expected: mean and biased variance of every channel over 150 samples.
// warpsmith: --arch sm_80 --kernel welford --grid 5 --block 64 --shared 0
// warpsmith: --arg x=f32[150,5]=normal(224) --arg mean=out,f32[5] --arg var=out,f32[5] --arg n=i32=150

struct Moments {
    float mean, m2;
    int n;
};

__device__ Moments merge(Moments a, Moments b)
{
    const int n = a.n + b.n;
    if (n == 0)
        return a;
    const float d = b.mean - a.mean, share = (float)b.n / n;
    return {a.mean + d * share, a.m2 + b.m2 + d * d * a.n * share, n};
}

extern "C" __global__ void welford(const float* x, float* mean, float* var, int n)
{
    __shared__ Moments part[2];
    const int c = blockIdx.x, t = threadIdx.x;
    Moments m{0.0f, 0.0f, 0};
    for (int i = t; i < n; i += blockDim.x) {
        const float v = x[i * gridDim.x + c];
        m.n += 1;
        const float d = v - m.mean;
        m.mean += d / m.n;
        m.m2 += d * (v - m.mean);
    }
    for (int o = 16; o > 0; o >>= 1) {
        Moments other;
        other.mean = __shfl_down_sync(0xffffffffu, m.mean, o);
        other.m2 = __shfl_down_sync(0xffffffffu, m.m2, o);
        other.n = __shfl_down_sync(0xffffffffu, m.n, o);
        m = merge(m, other);
    }
    if (t % 32 == 0)
        part[t / 32] = m;
    __syncthreads();
    if (t == 0) {
        m = merge(part[0], part[1]);
        mean[c] = m.mean;
        var[c] = m.m2 / m.n;
    }
}
