//! A device in a process of its own, over a channel: what a kernel breaks there, it breaks for nobody else.
//!
//! After a fault a CUDA process is of no use any more, whatever contexts it makes anew, and a kernel that never ends can
//! only be ended with its process. So whoever runs kernels that may be wrong, many in a row, borrows the device from a
//! [`DevicePool`]: a [`LentDevice`] is an accelerator like any other. [`serve`] is the other side.

mod client;
mod pool;
mod serve;
mod wire;

pub use client::{DeviceProcess, ProcessLimits};
pub use pool::{DevicePool, Lease, LentDevice};
pub use serve::serve;

#[cfg(test)]
mod tests;
