// warpsmith: reference = "ref.py:row_sum"
// warpsmith: sizes = { rows = 7, cols = 1500 }
// warpsmith: independent = "rows"
// warpsmith: deterministic = false
// warpsmith: tolerance = { reduction = "cols" }
// warpsmith: launch = { grid = ["ceil_div(cols, 512)", "rows"], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in fp32[rows, cols]"
// warpsmith: y = "out fp32[rows] = 0"
// warpsmith: cols = "size"
__global__ void red_rows_split(const float* x, float* y, int cols) {
    const float* row = x + (size_t)blockIdx.y * cols;
    int begin = blockIdx.x * 512, end = min(begin + 512, cols);
    float acc = 0;
    for (int i = begin + threadIdx.x; i < end; i += 128) acc += row[i];
    __shared__ float s[4];
    for (int o = 16; o; o >>= 1) acc += __shfl_down_sync(0xffffffff, acc, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = acc;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(y + blockIdx.y, s[0] + s[1] + s[2] + s[3]);
}
