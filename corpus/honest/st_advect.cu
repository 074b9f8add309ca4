// warpsmith: reference = "ref.py:advect"
// warpsmith: sizes = { n = 777 }
// warpsmith: launch = { grid = ["ceil_div(n, 32)"], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in fp64[n]"
// warpsmith: y = "out fp64[n]"
// warpsmith: c = "scalar fp64 = 0.5"
// warpsmith: n = "size"
__global__ void st_advect(const double* x, double* y, double c, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = x[i] - c * (x[i] - x[(i + n - 1) % n]);
}
