// A vector with one header element is read as float4 from element 1: every load is 4 bytes off a 16-byte boundary.
// warpsmith: --arch sm_80 --kernel norms --grid 2 --block 32 --shared 0
// warpsmith: --arg x=f32[257]=normal(3) --arg out=out,f32[64]

extern "C" __global__ void norms(const float* x, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float* body = x + 1;
    const float4 v = reinterpret_cast<const float4*>(body)[i]; //~ misaligned
    out[i] = sqrtf(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w) * x[0]; //~? uninitialised
}
