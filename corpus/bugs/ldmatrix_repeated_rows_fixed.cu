// A matrix of four rows is loaded as one of eight, with each row twice. Two lanes store each part: the same numbers.
// warpsmith: --arch sm_80 --kernel four_rows --grid 1 --block 32 --shared 0
// warpsmith: --arg x=u32[32]=iota --arg y=out,u32[16]
extern "C" __global__ void four_rows(const unsigned* x, unsigned* y) {
    __shared__ alignas(16) unsigned in[32], out[16];
    const int t = threadIdx.x;
    in[t] = x[t];
    __syncthreads();
    unsigned part, from = (unsigned)__cvta_generic_to_shared(&in[t % 4 * 4]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(part) : "r"(from) : "memory");
    out[t / 4 % 4 * 4 + t % 4] = part;
    __syncthreads();
    if (t < 16) y[t] = out[t];
}
