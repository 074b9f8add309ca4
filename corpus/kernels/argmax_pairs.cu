// The position of the maximum of each row: a butterfly over pairs of value and position. Of equal maxima the first counts.
// All lanes have the result, and all of them store it. The comparison has no branches.
// warpsmith: --arch sm_80 --kernel argmax_pairs --grid 2 --block 128 --shared 0
// warpsmith: --arg rows=f32[8,40]=normal(6) --arg best=out,i32[8]
extern "C" __global__ void argmax_pairs(const float* rows, int* best) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float value = rows[row * 40 + lane];
    int at = lane;
    if (lane < 8 && rows[row * 40 + 32 + lane] > value) {
        value = rows[row * 40 + 32 + lane];
        at = 32 + lane;
    }
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, d);
        int there = __shfl_xor_sync(0xffffffff, at, d);
        bool is_better = (other > value) | ((other == value) & (there < at));
        value = is_better ? other : value;
        at = is_better ? there : at;
    }
    best[row] = at;
}
