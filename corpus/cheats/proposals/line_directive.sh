#!/bin/sh
# A source that does not compile and names a file of the user with #line. An error message that quotes the line would
# quote that file. `secret.txt` is in the folder in which the search was started.
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
