// The rows of the candidate's element type.
#pragma once

#include "hopper/rows_16bit.cuh"
#include "hopper/rows_fp8.cuh"

namespace hopper {

template <bool>
struct RowsOf {
    using Type = Rows16Bit<BLOCK_N>;
};
template <>
struct RowsOf<true> {
    using Type = RowsFp8<BLOCK_N>;
};
using Rows = RowsOf<FP8>::Type;

}  // namespace hopper
