// Rotary embedding in place, one thread per element. A thread may read its partner after the partner was rotated.
// warpsmith: --arch sm_80 --kernel rope --grid 4 --block 64 --shared 0
// warpsmith: --arg x=inout,f32[4,64]=normal(5) --arg angle=f32[32]=uniform(6)

extern "C" __global__ void rope(float* x, const float* angle)
{
    float* row = x + blockIdx.x * 64;
    const int c = threadIdx.x;
    const float own = row[c], other = row[c ^ 32], a = angle[c % 32]; //~ race
    row[c] = c < 32 ? own * __cosf(a) - other * __sinf(a) : own * __cosf(a) + other * __sinf(a); //~| race
}
