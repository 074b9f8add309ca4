//! A device in a separate process, used over a channel. A kernel that fails there cannot damage the caller.
//!
//! After a fault a CUDA process is unusable, even with new contexts, and a kernel that never ends can only be stopped
//! by ending its process. Code that runs many kernels that may be wrong therefore borrows a device from a
//! [`DevicePool`]. A [`PooledDevice`] is an accelerator like any other. [`serve`] is the server side.

mod client;
mod pool;
mod serve;
mod wire;

pub use client::{DeviceProcess, ProcessLimits};
pub use pool::{DevicePool, Lease, PooledDevice};
pub use serve::serve;

#[cfg(test)]
mod tests;
