// The fixed twin of best_index_of_down_shuffle.cu.
// warpsmith: --arch sm_80 --kernel best --grid 3 --block 32 --shared 0
// warpsmith: --arg x=f32[96]=normal(3) --arg out=out,i32[3]

extern "C" __global__ void best(const float* x, int* out)
{
    float v = x[32 * blockIdx.x + threadIdx.x];
    int at = threadIdx.x;
    for (int d = 16; d > 0; d /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v, d);
        const int where = __shfl_xor_sync(0xffffffffu, at, d);
        if (other > v || (other == v && where < at)) {
            v = other;
            at = where;
        }
    }
    out[blockIdx.x] = at;
}
