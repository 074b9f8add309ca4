//! What a run needs of a device beside launching.

use gpu::accelerator::{Accelerator, Buffer, CudaDevice, Image, VirtualDevice};
use gpu::build::Build;

/// A device kernels are checked on. The defaults are right for one that runs machine code and checks nothing.
pub trait Stage: Accelerator {
    /// How wide a band a run must put on either side of every buffer; 0 where the device notices by itself what
    /// touches memory outside its buffers. A multiple of 256, so that buffers stay as aligned as allocations are.
    fn guard_bytes(&self) -> u64 {
        4096
    }

    /// The part of a build that runs here.
    fn image<'b>(&self, build: &'b Build) -> Image<'b> {
        Image::Cubin(&build.cubin)
    }

    /// Names the results of the next launch, for a device that checks that they are written.
    fn declare_outputs(&mut self, _outputs: &[Buffer]) {}
}

impl Stage for CudaDevice {}

impl Stage for VirtualDevice {
    fn guard_bytes(&self) -> u64 {
        0
    }

    fn image<'b>(&self, build: &'b Build) -> Image<'b> {
        Image::Ptx(&build.ptx)
    }

    fn declare_outputs(&mut self, outputs: &[Buffer]) {
        self.set_outputs(outputs);
    }
}
