//! CUDA without a toolkit: finds or installs NVRTC, compiles kernels with it, caches the builds, and lists the
//! machine's GPUs and tools.
//!
//! * [`toolchain`]: finds or installs NVRTC and the CUDA headers.
//! * [`nvrtc`]: the compiler library, loaded at run time.
//! * [`build`]: compiles a source for a target into PTX, cubin and resource use, through a content-addressed cache.
//! * [`accelerator`]: runs kernels, with one interface for the CUDA driver and the virtual GPU.
//! * [`device`]: selects a device and checks that it exists.
//! * [`launch`]: kernel arguments in the user's notation, and their contents.
//! * [`time`]: times of a device, measured or modelled.
//! * [`telemetry`]: clocks, temperature, power and throttling of a GPU.
//! * [`ending`]: describes how a process ended.
//! * [`machine`]: GPUs, driver, profiler and Python of this machine.
//! * [`paths`]: the cache folder, atomic writes and bounded reads.
//! * [`python`]: finds the Python interpreter.

pub mod accelerator;
pub mod build;
pub mod device;
pub mod ending;
pub mod launch;
pub mod machine;
pub mod nvrtc;
pub mod paths;
pub mod python;
pub mod telemetry;
#[doc(hidden)]
pub mod testing;
pub mod time;
pub mod toolchain;
