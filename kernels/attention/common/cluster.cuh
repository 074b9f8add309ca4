// Clusters of blocks that read each other's shared memory (sm_90 and later): one short function for each instruction.
#pragma once

namespace cluster {

// Arrives at the cluster's barrier and waits for it. Earlier writes are visible to the threads of the other blocks.
__device__ inline void sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The two halves of it for a barrier that orders no memory: that every block of the cluster has started.
__device__ inline void arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ inline void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// The address in block `block` of the cluster of what has this shared address here.
__device__ inline unsigned address(unsigned shared, unsigned block) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(block));
    return there;
}

__device__ inline float2 load8(unsigned there) {
    float2 x;
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(there) : "memory");
    return x;
}
__device__ inline float4 load16(unsigned there) {
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(there) : "memory");
    return x;
}
__device__ inline void store8(unsigned there, const float2& x) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" :: "r"(there), "f"(x.x), "f"(x.y) : "memory");
}
__device__ inline void store16(unsigned there, const float4& x) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};"
                 :: "r"(there), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
}

}  // namespace cluster
