//! CUDA without a toolkit: finds or installs NVRTC, compiles kernels with it, keeps what it compiled,
//! and says what this machine has.
//!
//! * [`toolchain`]: where NVRTC and the CUDA headers come from.
//! * [`nvrtc`]: the compiler library itself, loaded at run time.
//! * [`build`]: source + target -> PTX, cubin and resources, through a content-addressed cache.
//! * [`accelerator`]: what runs kernels, one interface over the CUDA driver and the virtual GPU.
//! * [`device`]: which device is meant, and whether it is there.
//! * [`launch`]: kernel arguments as users write them, and what they hold.
//! * [`time`]: times a device took, measured or modelled.
//! * [`telemetry`]: clocks, temperature, power and throttling of a GPU at work.
//! * [`ending`]: how a process that had a device ended, in words.
//! * [`machine`]: GPUs, driver, profiler and Python, as found or missing.

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
