//! The virtual GPU from outside: programs in, answers, findings and counters out.

// The parity tests of `crates/gpu` share files with these and know the crate by its short name.
extern crate warpsmith_vgpu as vgpu;

mod arithmetic;
mod counters;
mod coverage;
mod files;
mod hopper;
mod hostile;
mod state;
mod waits;
mod world;
