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
//! * [`words`]: numbers with their nouns, for messages.
//!
//! The same code runs PTX on the virtual GPU and, with `CudaDevice::open(0)`, on a real one:
//!
//! ```
//! use warpsmith_gpu::accelerator::{Accelerator, Geometry, Image, VirtualDevice};
//!
//! let ptx = ".version 8.4 .target sm_80 .address_size 64
//!     .visible .entry store(.param .u64 out) {
//!         .reg .b64 %p; .reg .b32 %x;
//!         ld.param.u64 %p, [out]; mov.u32 %x, 42; st.global.u32 [%p], %x; ret;
//!     }";
//! let chip = chips::Chip::by_name("h200")?;
//! let mut device = VirtualDevice::new(chip);
//! let module = device.load(Image::Ptx(ptx))?;
//! let buffer = device.allocate("out", 4)?;
//! let geometry = Geometry { grid: [1; 3], block: [1; 3], cluster: [1; 3], shared_bytes: 0 };
//! device.launch(module, "store", geometry, &[buffer.parameter()])?;
//! assert_eq!(device.read(buffer)?, 42_u32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod accelerator;
pub mod build;
pub mod device;
pub mod ending;
pub mod launch;
pub mod machine;
mod nvjitlink;
pub mod nvrtc;
pub mod paths;
pub mod python;
pub mod recent;
pub mod telemetry;
#[doc(hidden)]
pub mod testing;
pub mod time;
pub mod toolchain;
pub mod words;
