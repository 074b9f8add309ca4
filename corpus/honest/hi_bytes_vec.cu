// warpsmith: reference = "ref.py:hist"
// warpsmith: sizes = { n = { default = 4096, multiple_of = 16 }, bins = { default = 256, min = 256, max = 256 } }
// warpsmith: launch = { grid = [2], block = [64] }
// warpsmith: [arguments]
// warpsmith: x = "in u8[n] = 0..255"
// warpsmith: y = "out u32[bins] = 0"
// warpsmith: n = "size"
__global__ void hi_bytes_vec(const unsigned char* x, unsigned* y, int n) {
    __shared__ unsigned s[256];
    for (int b = threadIdx.x; b < 256; b += 64) s[b] = 0;
    __syncthreads();
    const uint4* v = (const uint4*)x;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n / 16; i += 128) {
        uint4 q = v[i];
        unsigned words[4] = {q.x, q.y, q.z, q.w};
        for (int k = 0; k < 4; ++k)
            for (int j = 0; j < 4; ++j) atomicAdd(&s[words[k] >> 8 * j & 255], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += 64) atomicAdd(&y[b], s[b]);
}
