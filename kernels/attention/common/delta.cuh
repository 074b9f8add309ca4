// delta = rowsum(dO * O), which the first launch of the backward pass writes to memory: a warp for every row.
#pragma once

#include "common/backward.cuh"

namespace attention {

// The delta of a row of HEAD_DIM elements. All lanes of the warp call together, and all get the result.
template <typename Element, int HEAD_DIM>
__device__ float delta_of(const BackwardArguments& args, int batch, int head, int query) {
    const Element* o = row_of(static_cast<const Element*>(args.forward.o), args.forward.o_strides, batch, head, query);
    const Element* d_o = row_of(static_cast<const Element*>(args.d_o), args.d_o_strides, batch, head, query);
    float sum = 0.0f;
#pragma unroll
    for (int d = threadIdx.x % 32 * 2; d < HEAD_DIM; d += 64) {
        // Two neighbours at a time: rows begin at multiples of 16 bytes.
        const unsigned a = *reinterpret_cast<const unsigned*>(o + d), b = *reinterpret_cast<const unsigned*>(d_o + d);
        const Element(&x)[2] = reinterpret_cast<const Element(&)[2]>(a);
        const Element(&y)[2] = reinterpret_cast<const Element(&)[2]>(b);
        sum = fmaf(to_float(x[0]), to_float(y[0]), sum);
        sum = fmaf(to_float(x[1]), to_float(y[1]), sum);
    }
    return group_sum<32>(sum);
}

}  // namespace attention
