//! The GPUs that Warpsmith supports: their sizes and rates, and how many blocks of a kernel fit on each.
//!
//! - [`Target`]: what a kernel is compiled for (`sm_89`), and the [`Limits`] of that compute capability;
//! - [`Chip`]: one product (`l4`, `h200`), with clocks, memory, caches and rates per SM, all in [`CHIPS`];
//! - [`occupancy()`]: blocks per SM and what limits them; [`next_step`]: what one more block needs.
//!
//! ```
//! use warpsmith_chips::{Chip, Limiter, Resources};
//!
//! let l4 = Chip::by_name("l4")?;
//! let kernel = Resources { registers_per_thread: 72, threads_per_block: 128, ..Resources::default() };
//! let occupancy = l4.occupancy(&kernel)?;
//! assert_eq!(occupancy.blocks_per_sm, 7);
//! assert_eq!(occupancy.limiters, [Limiter::Registers]);
//!
//! let next = l4.next_step(&kernel).expect("more blocks are possible");
//! assert_eq!((next.blocks_per_sm, next.registers_per_thread), (8, Some(64)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod occupancy;
mod table;
mod target;

pub use occupancy::{
    BlockLimits, DoesNotFit, Limiter, Misfit, NextStep, Occupancy, Resources, next_step, occupancy,
};
pub use table::{CHIPS, Chip, Clocks, L2, Memory, SmRates, TensorRates, TensorType, UnknownChip};
pub use target::{ComputeCapability, Limits, Target, UnknownTarget};
