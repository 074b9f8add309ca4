#!/bin/sh
# A source that calls itself a file of the user's and does not compile: a message that shows the guilty line would show
# that file's. `secret.txt` lies in the folder the search was started in.
cat <<SOURCE
\`\`\`cuda
#include "generated.cuh"
#include "common/between_launches.cuh"
extern "C" __global__ void attention_forward(const __grid_constant__ attention::Arguments args) {
#line 1 "$PWD/secret.txt"
    this does not compile;
}
\`\`\`
SOURCE
