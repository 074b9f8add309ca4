//! Compares occupancy with independent sources.

mod h200;
mod occupancy;
