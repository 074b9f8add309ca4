//! A CUDA GPU, through the driver library, which is loaded at run time: without it there is an error, not a panic.
//!
//! * [`CudaDevice`]: memory, modules and launches, as every accelerator has them;
//! * [`Call`], [`Replay`], [`ColdReplay`]: a launch prepared once, and the three ways to time it;
//! * [`SideStreams`]: what makes times comparable between processes that share the GPU.

mod device;
mod helpers;
mod launch;
mod tensor_map;
mod timing;

pub use device::{CudaDevice, HeldContext, driver_folder};
pub use launch::Call;
pub use timing::{ColdReplay, EventPair, Fresh, FreshReplay, Replay, SideStreams};
