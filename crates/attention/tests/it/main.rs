//! Tests of the op and its kernels: against the oracle, against PyTorch, and with planted faults.

mod backward;
mod common;
mod conversions;
mod dispatch;
mod families;
mod forward;
mod fp8_sums;
mod mutants;
mod numerics;
mod plans;
mod planted_faults;
mod pytorch;
mod quantised;
mod served;
mod wide_output;
