// Each thread handles four elements, but the grid was sized for one: three of four blocks have no work.
// warpsmith: --arch sm_80 --kernel scale --grid 8 --block 64 --shared 0
// warpsmith: --arg x=f32[512]=normal(3) --arg y=out,f32[512] --arg n=i32=512

extern "C" __global__ void scale(const float* x, float* y, int n) //~ idle-blocks
{
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < n) {
        const float4 v = *reinterpret_cast<const float4*>(x + i);
        *reinterpret_cast<float4*>(y + i) = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
    }
}
