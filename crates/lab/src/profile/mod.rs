//! `profile`: finds what limits a kernel, and what to change.
//!
//! A kernel runs once on a problem and its answer is compared with the reference. The
//! [`Metrics`](runlog::record::Metrics) come from Nsight Compute, which runs a worker process ([`ncu`]), or from the
//! counters and the time model of the virtual GPU (`worker::counted`). Everything after that is the same for both: [`rules`] say what limits the kernel and what to do about it, and
//! `roofline` compares it with the peak rates of the device.

pub mod ncu;
pub mod rules;
mod run;

pub use run::{ProfileError, ProfilePlan, run};
