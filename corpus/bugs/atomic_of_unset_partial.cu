// Adds up 100 numbers per block. Every thread of a block of 128 puts its number into shared memory and half of the block
// adds pairs. The threads beyond the data put nothing there, but their places are added all the same.
// warpsmith: --arch sm_80 --kernel add_up --grid 3 --block 128 --shared 0
// warpsmith: --arg numbers=f32[300]=normal(5) --arg total=inout,f32[1]=zeros
extern "C" __global__ void add_up(const float* numbers, float* total) {
    __shared__ float pairs[128];
    if (threadIdx.x < 100) pairs[threadIdx.x] = numbers[blockIdx.x * 100 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 64) {
        float sum = pairs[threadIdx.x] + pairs[threadIdx.x + 64];  //~ uninitialised
        atomicAdd(total, sum);                                     //~? uninitialised
    }
}
