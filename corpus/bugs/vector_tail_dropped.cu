// Four elements per thread with float4; the last n % 4 elements are never written.
// warpsmith: --arch sm_80 --kernel scale4 --grid 1 --block 128 --shared 0
// warpsmith: --arg x=f32[511]=normal(3) --arg y=out,f32[511] --arg n=i32=511 --arg a=f32=0.5

extern "C" __global__ void scale4(const float* x, float* y, int n, float a) //~ unwritten-output
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        v.x *= a;
        v.y *= a;
        v.z *= a;
        v.w *= a;
        reinterpret_cast<float4*>(y)[i] = v;
    }
}
