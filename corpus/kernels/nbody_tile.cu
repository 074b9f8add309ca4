// Gravity on 96 bodies: float4 tiles in dynamic shared memory, rsqrtf, softened.
// Expected: acc[i] = sum over j of m_j (p_j - p_i) / (|p_j - p_i|^2 + 0.01)^1.5.
// warpsmith: --arch sm_80 --kernel nbody --grid 3 --block 32 --shared 512
// warpsmith: --arg body=f32[96,4]=uniform(212) --arg acc=out,f32[96,3] --arg n=i32=96

extern "C" __global__ void nbody(const float4* body, float* acc, int n)
{
    extern __shared__ float4 tile[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 me = body[i];
    float3 a = make_float3(0.0f, 0.0f, 0.0f);
    for (int base = 0; base < n; base += blockDim.x) {
        tile[threadIdx.x] = body[base + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < blockDim.x; ++k) {
            const float4 o = tile[k];
            const float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
            const float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            const float s = o.w * inv * inv * inv;
            a.x += dx * s;
            a.y += dy * s;
            a.z += dz * s;
        }
        __syncthreads();
    }
    acc[i * 3] = a.x;
    acc[i * 3 + 1] = a.y;
    acc[i * 3 + 2] = a.z;
}
