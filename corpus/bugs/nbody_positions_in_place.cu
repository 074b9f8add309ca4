// N-body step that stores new positions over the positions that other blocks still read.
// warpsmith: --arch sm_80 --kernel step --grid 4 --block 32 --shared 0
// warpsmith: --arg pos=inout,f32[128,2]=normal(1) --arg vel=inout,f32[128,2]=normal(2) --arg next=inout,f32[128,2]=zeros

extern "C" __global__ void step(float2* pos, float2* vel, float2* next)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float2 p = pos[i]; //~? race
    float2 v = vel[i];
    for (int j = 0; j < 128; ++j) {
        const float dx = pos[j].x - p.x, dy = pos[j].y - p.y; //~ race
        const float r = rsqrtf(dx * dx + dy * dy + 0.01f);
        v.x += 0.001f * dx * r * r * r;
        v.y += 0.001f * dy * r * r * r;
    }
    vel[i] = v;
    pos[i] = make_float2(p.x + 0.01f * v.x, p.y + 0.01f * v.y); //~| race
}
