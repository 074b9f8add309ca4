// warpsmith: reference = "ref.py:layernorm"
// warpsmith: sizes = { rows = 10, cols = { default = 128, max = 512, multiple_of = 4 } }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["ceil_div(rows, 2)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: w = "in fp32[cols]"
// warpsmith: b = "in fp32[cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: eps = "scalar fp32 = 1e-5"
// warpsmith: rows = "size"
// warpsmith: cols = "size"
__device__ __forceinline__ float add4(float4 v) { return v.x + v.y + v.z + v.w; }
__global__ void ln_warp_vec(const float* x, const float* w, const float* b, float* y, float eps, int rows, int cols) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 2 + warp;
    if (row >= rows) return;
    float4 v[4];
    float s = 0.f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = (k * 32 + lane) * 4;
        v[k] = c < cols ? *reinterpret_cast<const float4*>(x + row * cols + c) : make_float4(0, 0, 0, 0);
        s += add4(v[k]);
    }
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    float mean = s / cols, q = 0.f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = (k * 32 + lane) * 4;
        float4 d = make_float4(v[k].x - mean, v[k].y - mean, v[k].z - mean, v[k].w - mean);
        if (c < cols) q += d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
    }
    for (int o = 16; o; o >>= 1) q += __shfl_xor_sync(~0u, q, o);
    float inv = rsqrtf(q / cols + eps);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int c = (k * 32 + lane) * 4;
        if (c >= cols) continue;
        float4 g = *reinterpret_cast<const float4*>(w + c), h = *reinterpret_cast<const float4*>(b + c), o;
        o.x = (v[k].x - mean) * inv * g.x + h.x;
        o.y = (v[k].y - mean) * inv * g.y + h.y;
        o.z = (v[k].z - mean) * inv * g.z + h.z;
        o.w = (v[k].w - mean) * inv * g.w + h.w;
        *reinterpret_cast<float4*>(y + row * cols + c) = o;
    }
}
