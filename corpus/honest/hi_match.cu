// warpsmith: reference = "ref.py:hist"
// warpsmith: sizes = { n = 2222, bins = { default = 10, min = 10, max = 10 } }
// warpsmith: launch = { grid = ["ceil_div(n, 64)"], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in i32[n] = 0..9"
// warpsmith: y = "out i32[bins] = 0"
// warpsmith: n = "size"
__global__ void hi_match(const int* x, int* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    unsigned active = __ballot_sync(~0u, i < n);
    if (i < n) {
        int v = x[i];
        unsigned peers = __match_any_sync(active, v);
        if ((threadIdx.x & 31) == __ffs(peers) - 1) atomicAdd(&y[v], __popc(peers));
    }
}
