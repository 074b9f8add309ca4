// warpsmith: reference = "ref.py:hist"
// warpsmith: sizes = { n = 2000, bins = { default = 64, min = 64, max = 64 } }
// warpsmith: launch = { grid = ["ceil_div(n, 256)"], block = [256] }
// warpsmith: [arguments]
// warpsmith: x = "in i32[n] = 0..63"
// warpsmith: y = "out i32[bins] = 0"
// warpsmith: n = "size"
__global__ void hi_global(const int* x, int* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(&y[x[i]], 1);
}
