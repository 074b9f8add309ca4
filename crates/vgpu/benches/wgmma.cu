// The kernel `wgmma_gemm` of `speed.rs`: C = A * B^T in fp16, tiles of 128 by 128, a ring of four stages, a producer
// warpgroup and two consumer warpgroups. `ptx/wgmma.ptx` is this file, compiled by NVRTC 13.0 for compute_90a.
typedef unsigned long long u64;
typedef unsigned int u32;
struct alignas(64) TensorMap { u64 words[16]; };
#define DEVICE __device__ __forceinline__
DEVICE u32 address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE u64 descriptor(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
DEVICE void init(u32 bar, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(n) : "memory"); }
DEVICE void expect(u32 bar, int n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(n) : "memory"); }
DEVICE void arrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
DEVICE void wait(u32 bar, int parity)
{
    asm volatile("{ .reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(bar), "r"(parity) : "memory");
}
DEVICE void load(u32 to, const TensorMap* map, int x, int y, u32 bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
DEVICE void product(float (&d)[64], u64 a, u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "l"(a), "l"(b));
}

constexpr int STAGES = 4, STAGE = 32768;

extern "C" __global__ void __launch_bounds__(384, 1) wgmma_gemm(const __grid_constant__ TensorMap ta, const __grid_constant__ TensorMap tb,
                                                                float* c, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ u64 bars[2 * STAGES];
    const u32 full = address(bars), empty = full + 8 * STAGES, tiles = address(memory);
    const int group = threadIdx.x / 128, lane = threadIdx.x % 32, steps = k / 64;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 8);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 256)
            for (int i = 0; i < steps; ++i) {
                const int s = i % STAGES;
                wait(empty + 8 * s, i / STAGES % 2 ^ 1);
                expect(full + 8 * s, STAGE);
                load(tiles + STAGE * s, &ta, 64 * i, 128 * blockIdx.y, full + 8 * s);
                load(tiles + STAGE * s + 16384, &tb, 64 * i, 128 * blockIdx.x, full + 8 * s);
            }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[64];
    for (int i = 0; i < 64; ++i)
        d[i] = 0;
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
        const int s = i % STAGES;
        const u64 a = descriptor(tiles + STAGE * s + 8192 * group), b = descriptor(tiles + STAGE * s + 16384);
        wait(full + 8 * s, i / STAGES % 2);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int j = 0; j < 4; ++j)
            product(d, a + 2 * j, b + 2 * j);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (lane == 0 && i > 0)
            arrive(empty + 8 * ((i - 1) % STAGES));
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 64; ++i)
        asm volatile("" : "+f"(d[i]) :: "memory");
    const int row = 128 * blockIdx.y + 64 * group + threadIdx.x % 128 / 32 * 16 + lane / 4;
    float* out = c + (size_t)row * n + 128 * blockIdx.x + 2 * (lane % 4);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        *reinterpret_cast<float2*>(out + 8 * j) = make_float2(d[4 * j], d[4 * j + 1]);
        *reinterpret_cast<float2*>(out + 8 * n + 8 * j) = make_float2(d[4 * j + 2], d[4 * j + 3]);
    }
}
