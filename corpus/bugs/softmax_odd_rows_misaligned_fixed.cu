// Softmax, one warp per row, with 16-byte loads at multiples of 16 bytes. Rows have 131 elements and start anywhere, so
// the elements at both ends are loaded one by one.
// warpsmith: --arch sm_80 --kernel softmax --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[4,131]=normal(3) --arg y=out,f32[4,131] --arg cols=i32=131

__device__ float4 load(const float* row, int first, int end)
{
    if (first >= 0 && first + 4 <= end)
        return *reinterpret_cast<const float4*>(row + first);
    float4 v;
    v.x = first >= 0 && first < end ? row[first] : -1e30f;
    v.y = first + 1 >= 0 && first + 1 < end ? row[first + 1] : -1e30f;
    v.z = first + 2 >= 0 && first + 2 < end ? row[first + 2] : -1e30f;
    v.w = first + 3 >= 0 && first + 3 < end ? row[first + 3] : -1e30f;
    return v;
}

extern "C" __global__ void softmax(const float* x, float* y, int cols)
{
    const int lane = threadIdx.x, row = blockIdx.x * cols;
    const int shift = row % 4;
    float4 kept[2];
    float m = -1e30f;
    for (int i = 0; i < 2; ++i) {
        kept[i] = load(x + row, 4 * (lane + 32 * i) - shift, cols);
        m = fmaxf(m, fmaxf(fmaxf(kept[i].x, kept[i].y), fmaxf(kept[i].z, kept[i].w)));
    }
    for (int o = 16; o > 0; o /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    float s = 0.0f;
    for (int i = 0; i < 2; ++i)
        s += __expf(kept[i].x - m) + __expf(kept[i].y - m) + __expf(kept[i].z - m) + __expf(kept[i].w - m);
    for (int o = 16; o > 0; o /= 2)
        s += __shfl_xor_sync(0xffffffffu, s, o);
    for (int i = 0; i < 2; ++i) {
        const float out[4] = {kept[i].x, kept[i].y, kept[i].z, kept[i].w};
        for (int j = 0; j < 4; ++j) {
            const int col = 4 * (lane + 32 * i) - shift + j;
            if (col >= 0 && col < cols)
                y[row + col] = __expf(out[j] - m) / s;
        }
    }
}
