//! Occupancy, against what others say.

mod h200;
mod occupancy;
