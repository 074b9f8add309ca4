// A thread copies its local array to shared memory for its neighbour to read.
// warpsmith: --arch sm_80 --kernel neighbours --grid 1 --block 32 --shared 0
// warpsmith: --arg x=f32[32,4]=normal(3) --arg pick=i32[32]=randint(4,0,4) --arg y=out,f32[32]

extern "C" __global__ void neighbours(const float* x, const int* pick, float* y)
{
    __shared__ float window[32][4];
    const int lane = threadIdx.x;
    float mine[4];
    for (int k = 0; k < 4; ++k)
        mine[k] = x[lane * 4 + k];
    for (int k = 0; k < 4; ++k)
        window[lane][k] = mine[k];
    __syncwarp();
    const int even = lane & ~1;
    y[lane] = window[even][pick[lane]];
}
