#!/bin/sh
# A source with 512 MiB of initialised data. The machine code contains all of it.
cat <<'SOURCE'
```cuda
#include "generated.cuh"
#include "common/between_launches.cuh"
__device__ unsigned huge[1 << 27] = {1, 2, 3};
extern "C" __global__ void attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
    if (args.seq_k < 0) huge[args.seq_q] = 7;
}
```
SOURCE
