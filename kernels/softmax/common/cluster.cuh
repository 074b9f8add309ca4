// Clusters of blocks that share a row (sm_90 and later): one short function for each instruction.
#pragma once

namespace cluster {

__device__ inline unsigned rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Arrives at the cluster's barrier; earlier writes are visible to the threads that wait for it.
__device__ inline void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Stores two floats at the place that `shared` has in this block, in block `block` of the cluster.
__device__ inline void store(void* shared, unsigned block, float first, float second) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " st.shared::cluster.v2.f32 [there], {%2, %3}; }"
                 :: "r"(address), "r"(block), "f"(first), "f"(second) : "memory");
}

}  // namespace cluster
