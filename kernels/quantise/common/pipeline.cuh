// Bulk copies, barrier objects and clusters (sm_90 and later): one short function for each instruction.
#pragma once

namespace pipeline {

__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// An mbarrier completes a phase when `arrivals` threads have arrived and all expected bytes have landed. Phases have
// parity 0, 1, 0, 1, ...
__device__ inline void init(unsigned long long* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes the initialised barriers visible to copies and to the other blocks of the cluster, before a cluster barrier.
__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

// Waits for the phase of this parity. On a fresh barrier the phase before the first (parity 1) counts as complete.
__device__ inline void wait(unsigned long long* barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (done == 0);
}

// The same for a barrier at which threads of other blocks arrive.
__device__ inline void wait_for_cluster(unsigned long long* barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (done == 0);
}

// Copies `bytes` (a multiple of 16) and arrives once; the phase also waits for the bytes.
__device__ inline void load(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// ---- clusters ----

__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of all blocks of the cluster.
__device__ inline void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Stores a float at the place that `shared` has in this block, in block `block` of the cluster, and arrives at the
// barrier that has the place of `barrier` there.
__device__ inline void send(float* shared, unsigned long long* barrier, unsigned block, float value) {
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.f32 [there], %2; }"
                 :: "r"(shared_address(shared)), "r"(block), "f"(value) : "memory");
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 :: "r"(shared_address(barrier)), "r"(block) : "memory");
}

}  // namespace pipeline
