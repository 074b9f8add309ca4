// The sum and the maximum of each row, by butterflies in loops that are not unrolled. All lanes have the results, and all
// of them store them.
// warpsmith: --arch sm_80 --kernel rolled_butterflies --grid 4 --block 64 --shared 0
// warpsmith: --arg x=f32[8,32]=normal(6) --arg sums=out,f32[8] --arg largest=out,f32[8]
extern "C" __global__ void rolled_butterflies(const float* x, float* sums, float* largest) {
    int row = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = x[row * 32 + lane], most = sum;
#pragma unroll 1
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
#pragma unroll 1
    for (int d = 1; d < 32; d *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
    sums[row] = sum;
    largest[row] = most;
}
