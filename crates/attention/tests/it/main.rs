//! The op and its kernels, together: against the oracle, against PyTorch, with faults planted.

mod common;
mod conversions;
mod families;
mod plans;
mod planted_faults;
mod pytorch;
mod tuned;
