// A warp reads lists of different lengths; all lanes run as many iterations as the longest list needs.
// warpsmith: --arch sm_80 --kernel relax --grid 1 --block 32 --shared 0
// warpsmith: --arg len=i32[32]=randint(3,1,8) --arg x=f32[32]=uniform(4) --arg y=out,f32[32]

extern "C" __global__ void relax(const int* len, const float* x, float* y)
{
    __shared__ float s[32];
    const int lane = threadIdx.x, mine = len[lane];
    s[lane] = x[lane];
    float v = 0.0f;
    const int trips = __reduce_max_sync(0xffffffffu, mine);
    for (int k = 0; k < trips; ++k) {
        __syncwarp();
        if (k < mine)
            v += s[(lane + k) & 31];
        __syncwarp();
        if (k < mine)
            s[lane] *= 0.5f;
    }
    y[lane] = v;
}
