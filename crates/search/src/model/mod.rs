//! What is believed about points that have not been seen.
//!
//! A Gaussian process over the logarithm of time. Two points are alike as far as their values are alike, parameter by
//! parameter; how much each parameter matters, and how far its influence reaches, is fitted to what was seen.
//!
//! * [`coordinates`]: where a parameter's values lie;
//! * [`shape`]: how alike two values are, and fitting that;
//! * [`process`]: mean and spread of the times of many points, kept up to date as points are seen;
//! * [`feasibility`]: how likely a point is to run at all.

pub(crate) mod coordinates;
pub(crate) mod feasibility;
pub(crate) mod process;
pub(crate) mod shape;
mod triangle;
