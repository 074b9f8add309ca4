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
mod primary;
mod repeated;
mod status;
mod stream;
mod tensor_map;
mod timing;

pub use context::{CudaContext, CudaModule};
pub use device::{CudaDevice, RetainedContext, driver_folder};
pub use launch::Call;
pub use repeated::RepeatedCall;
pub use stream::CudaStream;
pub use timing::{ColdReplay, ControlReplay, EventPair, FreshInputs, Replay, SideStreams};
