//! The workbench: what is done to the kernels of any op. It knows the op trait, devices and builds; it knows no op.
//!
//! * [`suite`]: which problems, against which baselines, with which targets;
//! * [`check`]: whether kernels are right;
//! * [`stats`]: what timings say.

pub mod check;
pub mod stats;
pub mod suite;
