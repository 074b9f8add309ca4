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
