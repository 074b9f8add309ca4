// delta = rowsum(dO * O), which the first launch of the backward pass writes to memory: LANES neighbouring lanes for every row.
#pragma once

#include "common/backward.cuh"

namespace attention {

// The delta of a row of HEAD_DIM elements. All lanes of the warp call together, each for the row of its LANES lanes, which all
// get the result.
template <typename Element, int HEAD_DIM, int LANES>
__device__ float delta_of(const BackwardArguments& args, int batch, int head, int query) {
    const Element* o = row_of(static_cast<const Element*>(args.forward.o), args.forward.o_strides, batch, head, query);
    const Element* d_o = row_of(static_cast<const Element*>(args.d_o), args.d_o_strides, batch, head, query);
    float sum = 0.0f;
#pragma unroll
    for (int first = 0; first < HEAD_DIM; first += LANES * 8) {
        const int d = first + threadIdx.x % LANES * 8;
        if (d >= HEAD_DIM) break;
        // Eight neighbours at a time: rows begin at multiples of 16 bytes.
        const uint4 a = *reinterpret_cast<const uint4*>(o + d), b = *reinterpret_cast<const uint4*>(d_o + d);
        const Element(&x)[8] = reinterpret_cast<const Element(&)[8]>(a);
        const Element(&y)[8] = reinterpret_cast<const Element(&)[8]>(b);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum = fmaf(to_float(x[i]), to_float(y[i]), sum);
    }
    return group_sum<LANES>(sum);
}

}  // namespace attention
