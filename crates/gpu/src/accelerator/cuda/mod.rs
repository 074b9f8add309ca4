//! A CUDA GPU, used through the driver library. The library is loaded at run time: a missing driver is an error, not
//! a panic.
//!
//! * [`CudaContext`]: kernels on the caller's memory and streams;
//! * [`CudaDevice`]: memory, modules and launches, with the interface of every accelerator;
//! * [`RepeatedCall`]: a prepared launch of a [`CudaContext`], which becomes a graph when it is used often;
//! * [`Call`], [`Replay`], [`ColdReplay`]: a prepared launch and the ways to time it;
//! * [`SideStreams`]: makes times comparable between processes that share the GPU.

mod context;
mod device;
mod graph;
mod helpers;
mod launch;
mod repeated;
mod status;
mod tensor_map;
mod timing;

pub use context::{CudaContext, CudaModule, CudaStream};
pub use device::{CudaDevice, RetainedContext, driver_folder};
pub use launch::Call;
pub use repeated::RepeatedCall;
pub use timing::{ColdReplay, ControlReplay, EventPair, FreshInputs, Replay, SideStreams};
