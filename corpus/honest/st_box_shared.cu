// warpsmith: reference = "ref.py:box9"
// warpsmith: sizes = { h = 37, w = 45 }
// warpsmith: launch = { grid = ["ceil_div(w, 16)", "ceil_div(h, 16)"], block = [16, 16] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[h, w]"
// warpsmith: y = "out fp32[h, w]"
// warpsmith: h = "size"
// warpsmith: w = "size"
__global__ void st_box_shared(const float* x, float* y, int h, int w) {
    __shared__ float s[18][18];
    int r0 = blockIdx.y * 16 - 1, c0 = blockIdx.x * 16 - 1;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
        int r = min(max(r0 + i / 18, 0), h - 1), c = min(max(c0 + i % 18, 0), w - 1);
        s[i / 18][i % 18] = x[r * w + c];
    }
    __syncthreads();
    int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    if (r >= h || c >= w) return;
    float sum = 0.f;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) sum += s[threadIdx.y + i][threadIdx.x + j];
    y[r * w + c] = sum * (1.f / 9.f);
}
