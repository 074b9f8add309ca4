// warpsmith: reference = "ref.py:softmax_scaled"
// warpsmith: sizes = { rows = 4, cols = { default = 512, multiple_of = 4 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: scale = "scalar fp32 = 0.125"
// warpsmith: cols = "size"
__global__ void sm_exp2(const float* x, float* y, float scale, int cols) {
    const float4* row = reinterpret_cast<const float4*>(x + blockIdx.x * cols);
    float4* out = reinterpret_cast<float4*>(y + blockIdx.x * cols);
    float k = scale * 1.44269504f, m = -INFINITY, s = 0.f;
    for (int i = threadIdx.x; i < cols / 4; i += 32) {
        float4 v = row[i];
        m = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    for (int o = 16; o; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
    for (int i = threadIdx.x; i < cols / 4; i += 32) {
        float4 v = row[i];
        s += exp2f((v.x - m) * k) + exp2f((v.y - m) * k) + exp2f((v.z - m) * k) + exp2f((v.w - m) * k);
    }
    for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
    for (int i = threadIdx.x; i < cols / 4; i += 32) {
        float4 v = row[i];
        out[i] = make_float4(exp2f((v.x - m) * k) / s, exp2f((v.y - m) * k) / s, exp2f((v.z - m) * k) / s,
                             exp2f((v.w - m) * k) / s);
    }
}
