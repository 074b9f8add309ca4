// A producer warp passes data to a consumer warp through shared memory and a volatile flag, without a fence on either
// side.
// warpsmith: --arch sm_80 --kernel hand --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[2,32]=normal(3) --arg y=out,f32[2,32]

extern "C" __global__ void hand(const float* x, float* y)
{
    __shared__ float box[32];
    __shared__ volatile int ready;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        ready = 0;
    __syncthreads();
    if (warp == 0) {
        box[lane] = sinf(x[blockIdx.x * 32 + lane]); //~ race
        __syncwarp();
        if (lane == 0) {
            ready = 1;
        }
    } else {
        while (ready == 0) {
        }
        y[blockIdx.x * 32 + lane] = box[31 - lane]; //~| race //~? uninitialised
    }
}
