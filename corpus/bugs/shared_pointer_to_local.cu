// A thread stores the address of its local array in shared memory, and its neighbour reads through it. Local memory is
// private: for the neighbour, the same address is in its own array.
// warpsmith: --arch sm_80 --kernel neighbours --grid 1 --block 32 --shared 0
// warpsmith: --arg x=f32[32,4]=normal(3) --arg pick=i32[32]=randint(4,0,4) --arg y=out,f32[32]

extern "C" __global__ void neighbours(const float* x, const int* pick, float* y)
{
    __shared__ const float* window[32];
    const int lane = threadIdx.x;
    float mine[4];
    if ((lane & 1) == 0)
        for (int k = 0; k < 4; ++k)
            mine[k] = x[lane * 4 + k];
    window[lane] = mine;
    __syncwarp();
    const int even = lane & ~1;
    y[lane] = window[even][pick[lane]]; //~ uninitialised //~| out-of-bounds
}
