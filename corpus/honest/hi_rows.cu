// warpsmith: reference = "ref.py:hist_rows"
// warpsmith: sizes = { rows = 6, cols = 300, bins = { default = 16, min = 16, max = 16 } }
// warpsmith: independent = "rows"
// warpsmith: launch = { grid = ["rows"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in i32[rows, cols] = 0..15"
// warpsmith: y = "out i32[rows, bins]"
// warpsmith: cols = "size"
__global__ void hi_rows(const int* x, int* y, int cols) {
    __shared__ int s[16];
    if (threadIdx.x < 16) s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += 64) atomicAdd(&s[x[blockIdx.x * cols + i]], 1);
    __syncthreads();
    if (threadIdx.x < 16) y[blockIdx.x * 16 + threadIdx.x] = s[threadIdx.x];
}
