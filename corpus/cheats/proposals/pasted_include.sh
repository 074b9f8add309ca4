#!/bin/sh
# An #include of /etc/passwd, with a name that the preprocessor concatenates.
cat <<'SOURCE'
```cuda
#define PASTE(a, b) a##b
#define QUOTE(x) #x
#define NAME(x) QUOTE(x)
#include NAME(PASTE(/etc/pass, wd))
#include "generated.cuh"
#include "common/between_launches.cuh"
extern "C" __global__ void attention_forward(const __grid_constant__ attention::Arguments args) {
    honest::attend(args, honest::own_work());
}
```
SOURCE
