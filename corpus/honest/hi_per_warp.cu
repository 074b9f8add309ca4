// warpsmith: reference = "ref.py:hist"
// warpsmith: sizes = { n = 3000, bins = { default = 100, min = 100, max = 100 } }
// warpsmith: launch = { grid = [2], block = [128] }
// warpsmith: [arguments]
// warpsmith: x = "in i32[n] = 0..99"
// warpsmith: y = "out i32[bins] = 0"
// warpsmith: n = "size"
__global__ void hi_per_warp(const int* x, int* y, int n) {
    __shared__ int s[4][100];
    for (int i = threadIdx.x; i < 400; i += 128) s[i / 100][i % 100] = 0;
    __syncthreads();
    int w = threadIdx.x / 32;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 256) atomicAdd(&s[w][x[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < 100; b += 128) {
        int v = s[0][b] + s[1][b] + s[2][b] + s[3][b];
        if (v) atomicAdd(&y[b], v);
    }
}
