// Matrix-vector product with blocks of 18 bytes: a 16-bit integer scale, then 32 weights of 4 bits (low nibbles first). One
// warp per row, one block of weights per lane.
// Expected: y[r] = sum over blocks of scale * sum((w - 8) * x).
// warpsmith: --arch sm_80 --kernel matvec_q4 --grid 2 --block 64 --shared 0
// warpsmith: --arg blocks=u8[4,4,18]=randint(7,0,256) --arg x=f32[128]=normal(8) --arg y=out,f32[4]

struct Block {
    unsigned short scale;
    unsigned char weights[16];
};

extern "C" __global__ void matvec_q4(const Block* blocks, const float* x, float* y)
{
    const int row = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    if (lane < 4) {
        const Block* b = blocks + row * 4 + lane;
        for (int i = 0; i < 16; ++i) {
            const int low = b->weights[i] & 15, high = b->weights[i] >> 4;
            sum += (low - 8) * x[lane * 32 + i] + (high - 8) * x[lane * 32 + 16 + i];
        }
        sum *= (b->scale & 255) * 0.01f;
    }
    for (int o = 2; o > 0; o >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (lane == 0)
        y[row] = sum;
}
