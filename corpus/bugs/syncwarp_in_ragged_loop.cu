// A warp reads lists of different lengths and synchronises inside the loop: lanes with short lists have left it.
// warpsmith: --arch sm_80 --kernel relax --grid 1 --block 32 --shared 0
// warpsmith: --arg len=i32[32]=randint(3,1,8) --arg x=f32[32]=uniform(4) --arg y=out,f32[32]

extern "C" __global__ void relax(const int* len, const float* x, float* y)
{
    __shared__ float s[32];
    const int lane = threadIdx.x, mine = len[lane];
    s[lane] = x[lane]; //~? race
    float v = 0.0f;
    for (int k = 0; k < mine; ++k) {
        __syncwarp(); //~ warp-mask
        v += s[(lane + k) & 31]; //~? race
        __syncwarp(); //~| warp-mask
        s[lane] *= 0.5f; //~? race
    }
    y[lane] = v;
}
