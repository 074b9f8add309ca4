// What the pairs of this folder share. Each file has a kernel `cheat` and a kernel `honest` with the same parameters and
// the same results. The modelled time of `cheat` must not be lower.
#pragma once
#include "../../hopper.cuh"

#define KERNEL extern "C" __global__ void

// A chain of N multiply-additions.
template <int N> __device__ __forceinline__ float chain(float x)
{
#pragma unroll
    for (int i = 0; i < N; ++i) x = fmaf(x, 0.75f, 0.5f);
    return x;
}

// `times` such chains, one after another.
template <int N> __device__ __forceinline__ float work(float x, int times)
{
#pragma unroll 1
    for (int i = 0; i < times; ++i) x = chain<N>(x);
    return x;
}

__device__ __forceinline__ bool test(u64* bar, int parity)
{
    u32 done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(address(bar)), "r"(parity) : "memory");
    return done != 0;
}

__device__ __forceinline__ void init_once(u64* bar, int arrivals)
{
    if (threadIdx.x == 0) init(bar, arrivals);
    __syncthreads();
}

// A product of 64 by 64 by 16 on whatever the tiles contain, for kernels that only pretend to need one.
__device__ __forceinline__ void one_product(const void* tiles)
{
    float d[32] = {};
    fence_products();
    product_f16(d, descriptor(tiles), descriptor(tiles));
    commit_products();
    wait_products<0>();
    keep(d);
}
