//! CUDA toolchain without a toolkit, kernel builds and their cache.
