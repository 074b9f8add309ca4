//! Fuzzing of all code that reads untrusted bytes. For development only: no other crate depends on this one.
//!
//! * [`targets`] is the table of targets. A target is a function of bytes that must return.
//! * [`mutate`] makes new inputs from the seed files.
//! * [`fuzz`] runs a target on many inputs and reports the first failure.
//! * [`memory`] counts the allocations of a thread.
//!
//! A failure is a panic, an abort, an input that takes too long, or an input that takes too much memory. An error value
//! is not a failure. The targets of libFuzzer (`crates/fuzz/libfuzzer`) call the same functions.

mod harness;
pub mod memory;
mod mutate;
pub mod targets;

pub use harness::{Failure, Length, MOST_BYTES, Summary, fuzz, run_once};
pub use mutate::mutate;
