// Blocks of 18 bytes (a 16-bit scale, then 32 weights of 4 bits), as model files have them. The weights are read as 32-bit
// words, which are aligned only in every other block.
// warpsmith: --arch sm_80 --kernel dot_q4 --grid 1 --block 32 --shared 0
// warpsmith: --arg blocks=u8[32,18]=randint(7,0,60) --arg x=f32[32]=normal(8) --arg y=out,f32[32]

struct Block {
    unsigned short scale;
    unsigned char weights[16];
};

extern "C" __global__ void dot_q4(const Block* blocks, const float* x, float* y)
{
    const Block* b = blocks + threadIdx.x;
    float sum = 0.0f;
    for (int word = 0; word < 4; ++word) {
        const unsigned bits = reinterpret_cast<const unsigned*>(b->weights)[word]; //~ misaligned
        for (int n = 0; n < 8; ++n)
            sum += ((int)(bits >> (4 * n) & 15) - 8) * x[word * 8 + n];
    }
    y[threadIdx.x] = sum * b->scale;
}
