//! Execution: worker threads run the blocks of a grid, a block runs its warps in turn, and a warp runs its fragments by
//! priority.

mod arithmetic;
mod atomics;
mod barrier;
mod block;
mod bulk;
mod cluster;
mod copies;
mod descriptor;
mod ending;
mod heap;
mod hooks;
mod launch;
mod mbarrier;
mod memory;
mod operand_cache;
mod options;
mod printf;
mod report;
mod schedule;
mod state;
mod step;
mod survey;
mod taint;
mod tensor;
mod tensor_copy;
mod texture;
mod tracing;
mod warp_ops;
mod wgmma;

pub use launch::{Launch, LaunchError};
pub use options::{Checks, Dim3, Limits, Options, Sample};
pub use report::{LaunchReport, Stats};

/// Selects at compile time which checks and counters a run includes. The same code is compiled in four instances.
pub(crate) trait Policy {
    const CHECK: bool;
    const COUNT: bool;
}

pub(crate) struct Plain;
pub(crate) struct Counted;
pub(crate) struct Checked;
pub(crate) struct CheckedCounted;

impl Policy for Plain {
    const CHECK: bool = false;
    const COUNT: bool = false;
}
impl Policy for Counted {
    const CHECK: bool = false;
    const COUNT: bool = true;
}
impl Policy for Checked {
    const CHECK: bool = true;
    const COUNT: bool = false;
}
impl Policy for CheckedCounted {
    const CHECK: bool = true;
    const COUNT: bool = true;
}
