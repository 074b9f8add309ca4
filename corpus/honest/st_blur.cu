// warpsmith: reference = "ref.py:blur3"
// warpsmith: sizes = { n = 1000 }
// warpsmith: launch = { grid = ["ceil_div(n, 128)"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[n]"
// warpsmith: n = "size"
__global__ void st_blur(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.25f * x[max(i - 1, 0)] + 0.5f * x[i] + 0.25f * x[min(i + 1, n - 1)];
}
