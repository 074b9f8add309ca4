//! CUDA's runtime API as a client of the driver API: a `libcudart.so.12` and `.13` for machines with no GPU.
//!
//! It calls the driver through `libcuda.so.1`, as NVIDIA's runtime library does, and keeps what only the runtime has: the
//! fat binaries and kernels that nvcc's code registers, launch configurations, and the last error of every thread.

// The addresses and handles of the program are 64-bit numbers, as on every machine that CUDA supports.
#![allow(clippy::not_unsafe_ptr_arg_deref)]
// The names of CUDA's functions and their parameters.
#![allow(non_snake_case)]
#![allow(clippy::too_many_arguments)]

#[macro_use]
mod api;
mod arrays;
mod copies;
mod devices;
mod driver;
mod errors;
mod graphs;
mod last_error;
mod launches;
mod memory;
mod missing;
mod outcome;
mod per_thread;
mod registration;
mod streams;
mod texels;
