//! What is believed about points that have not been seen.

pub mod axis;
pub mod fit;
pub mod forest;
pub mod process;
