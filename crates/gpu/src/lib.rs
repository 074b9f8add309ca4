//! Devices: the CUDA driver and the virtual GPU behind one interface, and the GPUs and tools of the machine.
//!
//! * [`accelerator`]: runs kernels on a GPU or on the virtual GPU.
//! * [`device`]: selects a device and checks that it exists.
//! * [`telemetry`]: clocks, temperature, power and throttling of a GPU.
//! * [`machine`]: GPUs, driver, profiler and Python of this machine.
//! * [`recent`]: a small cache of the values that were made last.
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
pub mod device;
pub mod machine;
pub mod recent;
pub mod telemetry;
