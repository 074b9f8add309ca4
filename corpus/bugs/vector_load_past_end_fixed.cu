// The last thread's float4 load is guarded by its last element; the tail is read one element at a time.
// warpsmith: --arch sm_80 --kernel sum4 --grid 1 --block 64 --shared 0
// warpsmith: --arg x=f32[201]=normal(3) --arg y=out,f32[64] --arg n=i32=201

extern "C" __global__ void sum4(const float* x, float* y, int n)
{
    const int i = threadIdx.x * 4;
    float sum = 0.0f;
    if (i + 3 < n) {
        const float4 v = *reinterpret_cast<const float4*>(x + i);
        sum = v.x + v.y + v.z + v.w;
    } else {
        for (int k = i; k < n; ++k)
            sum += x[k];
    }
    y[threadIdx.x] = sum;
}
