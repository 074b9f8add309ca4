#include <cuda_fp16.h>
// warpsmith: reference = "ref.py:softmax"
// warpsmith: sizes = { rows = 7, cols = { default = 180, max = 1024 } }
// warpsmith: independent = "rows"
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "inout fp16[rows, cols]"
// warpsmith: cols = "size"
__global__ void sm_inplace(__half* x, int cols) {
    __shared__ float row[1024], red[128];
    int t = threadIdx.x;
    x += blockIdx.x * cols;
    float m = -INFINITY;
    for (int i = t; i < cols; i += 128) m = fmaxf(m, row[i] = __half2float(x[i]));
    red[t] = m;
    for (int k = 64; k; k >>= 1) {
        __syncthreads();
        if (t < k) red[t] = fmaxf(red[t], red[t + k]);
    }
    __syncthreads();
    m = red[0];
    float s = 0;
    for (int i = t; i < cols; i += 128) s += row[i] = __expf(row[i] - m);
    __syncthreads();
    red[t] = s;
    for (int k = 64; k; k >>= 1) {
        __syncthreads();
        if (t < k) red[t] += red[t + k];
    }
    __syncthreads();
    for (int i = t; i < cols; i += 128) x[i] = __float2half_rn(row[i] / red[0]);
}
