// warpsmith: reference = "ref.py:hist_fraction"
// warpsmith: sizes = { n = 1111, bins = { default = 24, min = 24, max = 24 } }
// warpsmith: launch = { grid = [24], block = [32] }
// warpsmith: [arguments]
// warpsmith: x = "in i32[n] = 0..23"
// warpsmith: y = "out fp32[bins]"
// warpsmith: n = "size"
__global__ void hi_fraction(const int* x, float* y, int n) {
    int count = 0;
    for (int i = threadIdx.x; i < n; i += 32) count += x[i] == blockIdx.x;
    count = __reduce_add_sync(~0u, count);
    if (threadIdx.x == 0) y[blockIdx.x] = (float)count / n;
}
