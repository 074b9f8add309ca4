#!/bin/sh
# A correct source that requests ROWS=32 and computes 16 rows, so a result for ROWS=32 would be one for 16 rows.
cat <<'SOURCE'
```json
{"knobs": {"ROWS": 32}, "why": "the launch changes, the kernel does not"}
```
```cuda
#include "generated.cuh"
namespace fixed {
constexpr int ROWS = 16;
}
#define knob fixed
#include "common/between_launches.cuh"
#undef knob
extern "C" __global__ void __launch_bounds__(honest::THREADS)
attention_forward(const __grid_constant__ attention::Arguments args) {
    const int tiles = (args.seq_q + 15) / 16, launched = gridDim.x;
    for (int tile = blockIdx.x; tile < tiles; tile += launched)
        honest::attend(args, {tile, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)});
}
```
SOURCE
