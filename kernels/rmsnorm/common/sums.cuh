// Sums over threads in a fixed order: equal inputs give equal bits.
#pragma once

// The sum over groups of WIDTH neighbouring lanes (a power of two), given to all of them. The whole warp calls.
template <int WIDTH>
__device__ float lane_sum(float x) {
#pragma unroll
    for (int distance = WIDTH / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

// The sum over WARPS neighbouring warps, given to all of their threads. All threads of the block call. `partials` has an
// element for each of these warps. Another call may use the same elements only after a barrier that follows this call.
template <int WARPS>
__device__ float warps_sum(float* partials, float x) {
    x = lane_sum<32>(x);
    if constexpr (WARPS > 1) {
        if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32 % WARPS] = x;
        __syncthreads();
        x = lane_sum<WARPS>(partials[threadIdx.x % WARPS]);
    }
    return x;
}

// The same with fewer steps that wait for each other: a warp leaves LEFT partial sums (a power of two), and every thread
// adds those of all WARPS warps. `partials` has WARPS * LEFT elements, a multiple of 4, and is aligned to 16 bytes.
template <int WARPS, int LEFT>
__device__ float warps_sum_of_parts(float* partials, float x) {
    static_assert(WARPS * LEFT % 4 == 0, "four are read at a time");
#pragma unroll
    for (int distance = 16; distance >= LEFT; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    if (threadIdx.x % 32 < LEFT) partials[threadIdx.x / 32 % WARPS * LEFT + threadIdx.x % 32] = x;
    __syncthreads();
    float4 sums = *reinterpret_cast<const float4*>(partials);
#pragma unroll
    for (int i = 4; i < WARPS * LEFT; i += 4) {
        const float4 more = *reinterpret_cast<const float4*>(partials + i);
        sums = make_float4(sums.x + more.x, sums.y + more.y, sums.z + more.z, sums.w + more.w);
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}
