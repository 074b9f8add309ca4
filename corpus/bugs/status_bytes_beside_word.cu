// Each block marks itself as done in a status word of all blocks, and one block writes the whole word.
// warpsmith: --arch sm_80 --kernel mark --grid 4 --block 32 --shared 0
// warpsmith: --arg x=f32[128]=normal(3) --arg y=out,f32[128] --arg status=inout,u32[1]=zeros

extern "C" __global__ void mark(const float* x, float* y, unsigned* status)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    y[i] = 2 * x[i];
    if (blockIdx.x == 2 && threadIdx.x == 0) *status = 0x01010100u; //~ race
    if (threadIdx.x == 0) reinterpret_cast<unsigned char*>(status)[blockIdx.x] = 1; //~| race
}
