//! Predicts the times of points that have not been measured.
//!
//! The model is a Gaussian process over the logarithm of time. Two points are similar if their values are similar,
//! parameter by parameter. The importance of each parameter and the range of its influence are fitted to the
//! measurements.
//!
//! * [`coordinates`]: distances between a parameter's values;
//! * [`shape`]: the correlation of two values, and its fit;
//! * [`process`]: mean and deviation of the times of many points, updated with each measurement;
//! * [`feasibility`]: the probability that a point runs at all.

pub(crate) mod coordinates;
pub(crate) mod feasibility;
pub(crate) mod process;
pub(crate) mod shape;
mod triangle;
