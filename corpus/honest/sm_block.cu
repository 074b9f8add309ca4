// warpsmith: reference = "ref.py:softmax"
// warpsmith: sizes = { rows = 5, cols = 700 }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows, cols]"
// warpsmith: cols = "size"
__global__ void sm_block(const float* x, float* y, int cols) {
    __shared__ float s[256];
    const float* row = x + blockIdx.x * cols;
    int t = threadIdx.x;
    float m = -INFINITY;
    for (int i = t; i < cols; i += 256) m = fmaxf(m, row[i]);
    s[t] = m;
    __syncthreads();
    for (int k = 128; k; k /= 2) {
        if (t < k) s[t] = fmaxf(s[t], s[t + k]);
        __syncthreads();
    }
    m = s[0];
    __syncthreads();
    float sum = 0;
    for (int i = t; i < cols; i += 256) sum += expf(row[i] - m);
    s[t] = sum;
    __syncthreads();
    for (int k = 128; k; k /= 2) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    float inv = 1.f / s[0];
    for (int i = t; i < cols; i += 256) y[blockIdx.x * cols + i] = expf(row[i] - m) * inv;
}
