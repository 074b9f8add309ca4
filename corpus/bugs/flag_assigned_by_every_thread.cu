// Every thread assigns the result of its own test to one flag. The last store wins, whatever it is; with this input all
// stores happen to be equal.
// warpsmith: --arch sm_80 --kernel any_above --grid 2 --block 64 --shared 0
// warpsmith: --arg x=f32[128]=uniform(3) --arg limit=f32=2 --arg found=inout,i32[1]=zeros

extern "C" __global__ void any_above(const float* x, float limit, int* found)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    *found = x[i] > limit; //~ race
}
