// A struct passed by value, with padding, a small array indexed at run time, and a copy of the whole struct to
// global memory.
// Expected: out[i] = x[i] * taps[i mod 3] + bias; echo = the 24 bytes of the parameter (padding included).
// The parameter is {u8 mode = 2, pad 3, f32 bias = 1.5, f32 taps[3] = {1, 2, 4}, i32 n = 70}.
// warpsmith: --arch sm_80 --kernel by_value --grid 2 --block 64 --shared 0
// warpsmith: --arg p=bytes=020000000000c03f0000803f000000400000804046000000
// warpsmith: --arg x=f32[70]=normal(184) --arg out=out,f32[70] --arg echo=out,u8[24]

struct Params {
    unsigned char mode;
    float bias;
    float taps[3];
    int n;
};

extern "C" __global__ void by_value(Params p, const float* x, float* out, Params* echo)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n)
        out[i] = p.mode == 2 ? x[i] * p.taps[i % 3] + p.bias : 0.0f;
    if (i == 0)
        memcpy(echo, &p, sizeof p);
}
