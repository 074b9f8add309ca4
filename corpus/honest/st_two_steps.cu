// warpsmith: reference = "ref.py:two_steps"
// warpsmith: sizes = { n = 600 }
// warpsmith: launch = { grid = ["ceil_div(n, 60)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[n]"
// warpsmith: y = "out fp32[n]"
// warpsmith: n = "size"
__global__ void st_two_steps(const float* x, float* y, int n) {
    __shared__ float a[64], b[64];
    int t = threadIdx.x, i = (int)blockIdx.x * 60 + t - 2;
    bool in = i >= 0 && i < n;
    a[t] = in ? x[i] : 0.f;
    __syncthreads();
    b[t] = in && t > 0 && t < 63 ? 0.25f * a[t - 1] + 0.5f * a[t] + 0.25f * a[t + 1] : 0.f;
    __syncthreads();
    if (in && t >= 2 && t < 62) y[i] = 0.25f * b[t - 1] + 0.5f * b[t] + 0.25f * b[t + 1];
}
