//! Tests of the virtual GPU through its public interface: programs are the input; results, findings and counters are
//! the output.

// The parity tests of `crates/gpu` share files with these tests and use the short name of the crate.
extern crate warpsmith_vgpu as vgpu;

mod arithmetic;
mod compilers;
mod counters;
mod coverage;
mod files;
mod hopper;
mod host_memory;
mod hostile;
mod sparse;
mod state;
mod verdicts;
mod waits;
mod world;
