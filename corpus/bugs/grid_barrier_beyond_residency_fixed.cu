// A grid barrier over 4 blocks that are resident together and stride over the work.
// warpsmith: --arch sm_80 --kernel normalise --grid 4 --block 32 --shared 98304
// warpsmith: --arg x=f32[16384]=uniform(3) --arg sum=inout,f32[1]=zeros --arg arrived=inout,u32[1]=zeros
// warpsmith: --arg y=out,f32[16384] --arg n=i32=16384

extern "C" __global__ void normalise(const float* x, float* sum, unsigned* arrived, float* y, int n)
{
    extern __shared__ float stage[];
    const int lane = threadIdx.x;
    float s = 0.0f;
    for (int i = blockIdx.x * 32 + lane, k = lane; i < n; i += gridDim.x * 32, k += 32) {
        stage[k] = x[i];
        s += stage[k];
    }
    for (int o = 16; o > 0; o >>= 1)
        s += __shfl_xor_sync(0xffffffffu, s, o);
    if (lane == 0) {
        atomicAdd(sum, s);
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x)
            __nanosleep(100);
        __threadfence();
    }
    __syncwarp();
    const float total = *sum;
    for (int i = blockIdx.x * 32 + lane, k = lane; i < n; i += gridDim.x * 32, k += 32)
        y[i] = stage[k] / total;
}
