// Adds up 100 numbers per block. Every thread of a block of 128 puts its number into shared memory and half of the block
// adds pairs. The threads beyond the data put zeros there.
// warpsmith: --arch sm_80 --kernel add_up --grid 3 --block 128 --shared 0
// warpsmith: --arg numbers=f32[300]=normal(5) --arg total=inout,f32[1]=zeros
extern "C" __global__ void add_up(const float* numbers, float* total) {
    __shared__ float pairs[128];
    pairs[threadIdx.x] = threadIdx.x < 100 ? numbers[blockIdx.x * 100 + threadIdx.x] : 0.0f;
    __syncthreads();
    if (threadIdx.x < 64) {
        float sum = pairs[threadIdx.x] + pairs[threadIdx.x + 64];
        atomicAdd(total, sum);
    }
}
