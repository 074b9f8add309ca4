// Last-block-done reduction with a plain increment for the ticket: two blocks can get the same number, or no block gets
// the last one.
// warpsmith: --arch sm_80 --kernel reduce_last --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg part=scratch,f32[4]
// warpsmith: --arg ticket=inout,u32[1]=zeros --arg out=inout,f32[1]=zeros

extern "C" __global__ void reduce_last(const float* x, float* part, unsigned* ticket, float* out)
{
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_down_sync(0xffffffffu, v, o);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v; //~? race
        __threadfence();
        const unsigned mine = (*ticket)++; //~ race
        if (mine == gridDim.x - 1) {
            __threadfence();
            float sum = 0.0f;
            for (int b = 0; b < gridDim.x; ++b)
                sum += part[b]; //~? race
            *out = sum;
        }
    }
}
