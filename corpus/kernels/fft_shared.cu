// Radix-2 FFT of 128 points in shared memory: bit-reversed load, twiddles by sincospif.
// Expected: the discrete Fourier transform of each row.
// warpsmith: --arch sm_80 --kernel fft128 --grid 2 --block 64 --shared 0
// warpsmith: --arg re=inout,f32[2,128]=normal(213) --arg im=inout,f32[2,128]=normal(214)

extern "C" __global__ void fft128(float* re, float* im)
{
    __shared__ float2 s[128];
    const int t = threadIdx.x, base = blockIdx.x * 128;
    for (int i = t; i < 128; i += 64)
        s[__brev(i) >> 25] = make_float2(re[base + i], im[base + i]);
    for (int half = 1; half < 128; half <<= 1) {
        __syncthreads();
        const int k = t & (half - 1), lo = 2 * t - k, hi = lo + half;
        float sn, cs;
        sincospif(-(float)k / half, &sn, &cs);
        const float2 a = s[lo], b = s[hi];
        const float2 w = make_float2(b.x * cs - b.y * sn, b.x * sn + b.y * cs);
        s[lo] = make_float2(a.x + w.x, a.y + w.y);
        s[hi] = make_float2(a.x - w.x, a.y - w.y);
    }
    __syncthreads();
    for (int i = t; i < 128; i += 64) {
        re[base + i] = s[i].x;
        im[base + i] = s[i].y;
    }
}
