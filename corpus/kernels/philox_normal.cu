// Philox4x32-10 counters to normals by Box-Muller, four numbers per thread.
// Expected: bits = Philox(counter = thread, key = seed), exactly; normals = Box-Muller of those bits.
// warpsmith: --arch sm_80 --kernel philox --grid 2 --block 64 --shared 0
// warpsmith: --arg bits=out,u32[128,4] --arg normals=out,f32[128,4] --arg seed=u64=20240607

__device__ uint4 philox_round(uint4 c, uint2 k)
{
    const unsigned hi0 = __umulhi(0xD2511F53u, c.x), lo0 = 0xD2511F53u * c.x;
    const unsigned hi1 = __umulhi(0xCD9E8D57u, c.z), lo1 = 0xCD9E8D57u * c.z;
    return make_uint4(hi1 ^ c.y ^ k.x, lo1, hi0 ^ c.w ^ k.y, lo0);
}

__device__ float2 box_muller(unsigned a, unsigned b)
{
    const float u = a * 2.3283064e-10f + 1.1641532e-10f;
    const float v = b * 1.4629181e-9f; // 2 pi / 2^32
    const float r = sqrtf(-2.0f * logf(u));
    float s, c;
    sincosf(v, &s, &c);
    return make_float2(r * c, r * s);
}

extern "C" __global__ void philox(unsigned* bits, float* normals, unsigned long long seed)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 c = make_uint4(i, 0, 0, 0);
    uint2 k = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        c = philox_round(c, k);
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    reinterpret_cast<uint4*>(bits)[i] = c;
    const float2 n0 = box_muller(c.x, c.y), n1 = box_muller(c.z, c.w);
    reinterpret_cast<float4*>(normals)[i] = make_float4(n0.x, n0.y, n1.x, n1.y);
}
