// Scales each row in place by its maximum. The partial maxima of the warps go through shared memory, and the first warp
// combines them. A row has 96 elements, so there are three warps, and three partial maxima are combined. The sums are
// kept in place, so no buffer is an output.
// warpsmith: --arch sm_80 --kernel scale_rows --grid 4 --block 96 --shared 0
// warpsmith: --arg rows=inout,f32[384]=normal(3)
extern "C" __global__ void scale_rows(float* rows) {
    __shared__ float partial[8];
    float value = rows[blockIdx.x * 96 + threadIdx.x];
    float highest = fabsf(value);
    for (int d = 16; d > 0; d /= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, d));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = highest;
    __syncthreads();
    highest = 0.0f;
    for (int w = 0; w < 3; ++w) highest = fmaxf(highest, partial[w]);
    rows[blockIdx.x * 96 + threadIdx.x] = value / highest;
}
