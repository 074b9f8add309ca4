// A work counter shared by all blocks is incremented with atomicAdd_block, which is atomic only within one block.
// warpsmith: --arch sm_80 --kernel take_work --grid 4 --block 32 --shared 0
// warpsmith: --arg next=inout,u32[1]=zeros --arg x=f32[256]=normal(3) --arg out=out,f32[256] --arg n=i32=256

extern "C" __global__ void take_work(unsigned* next, const float* x, float* out, int n)
{
    const int lane = threadIdx.x;
    for (;;) {
        unsigned begin = 0;
        if (lane == 0)
            begin = atomicAdd_block(next, 32u); //~ scope //~| race
        begin = __shfl_sync(0xffffffffu, begin, 0);
        if (begin >= n)
            break;
        out[begin + lane] = sqrtf(fabsf(x[begin + lane])); //~? race
    }
}
