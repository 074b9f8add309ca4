// Wrappers of Hopper's instructions for the corpus: one instruction each, so that the frames of a finding name the line
// of the kernel that calls it.
#pragma once

typedef unsigned long long u64;
typedef unsigned int u32;

struct alignas(64) TensorMap { u64 words[16]; };

#define HOPPER __device__ __forceinline__

HOPPER u32 address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// Barrier objects.
HOPPER void init(u64* bar, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(bar)), "r"(arrivals) : "memory"); }
HOPPER void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
HOPPER void expect(u64* bar, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(bar)), "r"(bytes) : "memory"); }
HOPPER void arrive(u64* bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(bar)) : "memory"); }
HOPPER void wait(u64* bar, int parity)
{
    u32 done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(address(bar)), "r"(parity) : "memory");
    } while (done == 0);
}

// Tensor copies.
HOPPER void load(void* to, const TensorMap* map, int x, int y, u64* bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(address(to)), "l"(map), "r"(x), "r"(y), "r"(address(bar)) : "memory");
}
HOPPER void store(const TensorMap* map, int x, int y, const void* from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(map), "r"(x), "r"(y), "r"(address(from)) : "memory");
}
HOPPER void load_bytes(void* to, const void* from, unsigned bytes, u64* barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(address(to)), "l"(from), "r"(bytes), "r"(address(barrier)) : "memory");
}
HOPPER void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> HOPPER void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
template <int N> HOPPER void wait_stores() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
HOPPER void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Tensor maps that a kernel changes: first in shared memory, then copied to global memory by a whole warp.
HOPPER void replace_address(TensorMap* map, const void* to)
{
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(address(map)), "l"(to) : "memory");
}
HOPPER void publish_map(TensorMap* to, const TensorMap* map)
{
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(to), "r"(address(map)) : "memory");
}
HOPPER void acquire_map(const TensorMap* map) { asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory"); }
HOPPER void fence_proxy_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Clusters.
HOPPER void arrive_cluster() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
HOPPER void wait_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
HOPPER void arrive_cluster_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
HOPPER u32 cluster_rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
HOPPER u32 map_to(const void* p, u32 rank) { u32 r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address(p)), "r"(rank)); return r; }
HOPPER float load_remote(u32 at) { float v; asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory"); return v; }
HOPPER void store_remote(u32 at, float v) { asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory"); }
HOPPER void add_remote(u32 at, float v) { asm volatile("red.relaxed.cluster.shared::cluster.add.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory"); }
HOPPER void store_async(u32 at, float v, u32 bar)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(at), "f"(v), "r"(bar) : "memory");
}
HOPPER void arrive_remote(u32 bar) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory"); }
HOPPER void load_multicast(void* to, const TensorMap* map, int x, int y, u64* bar, unsigned short blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(address(to)), "l"(map), "r"(x), "r"(y), "r"(address(bar)), "h"(blocks) : "memory");
}

// Products. Swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes.
HOPPER u64 descriptor(const void* p, int leading = 16, int stride = 1024, u64 swizzle = 1)
{
    return (u64)((address(p) & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | swizzle << 62;
}
HOPPER void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
HOPPER void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> HOPPER void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> HOPPER void keep(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
template <int R> HOPPER void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(R)); }
template <int R> HOPPER void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(R)); }

#define D32 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define ACCUMULATORS32 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
    "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), \
    "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), \
    "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])

// 64 by 64, one step of 32 bytes along k. The rows of a and b are along k; in `_n` the rows of b are along n.
#define PRODUCT(NAME, SHAPE, TYPES, REST) \
    HOPPER void NAME(float (&d)[32], u64 a, u64 b) \
    { asm volatile("wgmma.mma_async.sync.aligned." SHAPE "." TYPES " " D32 ", %32, %33, 1, 1, 1" REST ";" : ACCUMULATORS32 : "l"(a), "l"(b)); }
PRODUCT(product_f16, "m64n64k16", "f32.f16.f16", ", 0, 0")
PRODUCT(product_f16_n, "m64n64k16", "f32.f16.f16", ", 0, 1")
PRODUCT(product_bf16, "m64n64k16", "f32.bf16.bf16", ", 0, 0")
PRODUCT(product_e4m3, "m64n64k32", "f32.e4m3.e4m3", "")
// Replaces d unless `add` is set.
HOPPER void product_f16_scaled(float (&d)[32], u64 a, u64 b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " D32 ", %32, %33, p, 1, 1, 0, 0; }"
                 : ACCUMULATORS32 : "l"(a), "l"(b), "r"(add));
}
// A from registers.
HOPPER void product_registers_f16(float (&d)[32], const u32 (&a)[4], u64 b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " D32 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : ACCUMULATORS32 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Stores a warpgroup's accumulators of 64 columns to rows of `width` floats.
HOPPER void write_tile(float* c, int width, const float (&d)[32])
{
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    float* row = c + (16 * warp + lane / 4) * width + 2 * (lane % 4);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        row[8 * j] = d[4 * j];
        row[8 * j + 1] = d[4 * j + 1];
        row[8 * width + 8 * j] = d[4 * j + 2];
        row[8 * width + 8 * j + 1] = d[4 * j + 3];
    }
}
