// Insertion into a per-thread list of the 8 smallest values. The shift moves one element too many, past the end of the
// local array.
// warpsmith: --arch sm_80 --kernel smallest8 --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[64,32]=normal(3) --arg out=out,f32[64,8] --arg n=i32=32

extern "C" __global__ void smallest8(const float* x, float* out, int n)
{
    float list[8];
    const float* row = x + threadIdx.x * n;
    for (int k = 0; k < 8; ++k)
        list[k] = 3.0e38f;
    for (int i = 0; i < n; ++i) {
        const float v = row[i];
        int at = 0;
        while (at < 8 && list[at] <= v)
            ++at;
        for (int k = 8; k > at; --k)
            list[k] = list[k - 1]; //~ out-of-bounds
        if (at < 8)
            list[at] = v;
    }
    for (int k = 0; k < 8; ++k)
        out[threadIdx.x * 8 + k] = list[k];
}
