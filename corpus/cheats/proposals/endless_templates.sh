#!/bin/sh
# A source that the compiler never finishes: 2^60 different instantiations.
cat <<'SOURCE'
```cuda
#include "generated.cuh"
#include "common/between_launches.cuh"
template <int DEPTH, unsigned long long PATH>
struct Tree {
    static constexpr int SIZE = Tree<DEPTH - 1, 2 * PATH>::SIZE + Tree<DEPTH - 1, 2 * PATH + 1>::SIZE;
};
template <unsigned long long PATH>
struct Tree<0, PATH> {
    static constexpr int SIZE = 1;
};
extern "C" __global__ void attention_forward(const __grid_constant__ attention::Arguments args) {
    if (Tree<60, 1>::SIZE != 0) honest::attend(args, honest::own_work());
}
```
SOURCE
