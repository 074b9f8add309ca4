//! What a run needs of a device beside launching.

use gpu::accelerator::{Accelerator, Buffer, CudaDevice, Image, LentDevice, VirtualDevice};
use gpu::build::Build;

/// A device kernels are checked on. The defaults are right for one that runs machine code and checks nothing.
pub trait CheckDevice: Accelerator {
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

    /// Says how much arithmetic the next launches are for, to a device that ends what seems to run for ever.
    fn expect(&mut self, _flops: f64) {}

    /// Ends counting, on a device that counts: of a trial the first launch is counted.
    fn stop_counting(&mut self) {}
}

impl CheckDevice for CudaDevice {}

/// Those that are lent are CUDA devices.
impl CheckDevice for LentDevice {}

impl CheckDevice for VirtualDevice {
    fn guard_bytes(&self) -> u64 {
        0
    }

    fn image<'b>(&self, build: &'b Build) -> Image<'b> {
        Image::Ptx(&build.ptx)
    }

    fn declare_outputs(&mut self, outputs: &[Buffer]) {
        self.set_outputs(outputs);
    }

    fn expect(&mut self, flops: f64) {
        let usual = vgpu::Options::default().budget;
        self.options.budget = usual.max((flops / LEAST_FLOPS) as u64);
    }

    fn stop_counting(&mut self) {
        self.options.counters = false;
    }
}

/// What a warp's instruction does of a problem's arithmetic, at the very least: a multiply-add of 32 lanes is 64
/// operations, and a plain kernel has a dozen instructions around each.
const LEAST_FLOPS: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_problem_is_not_taken_for_one_that_never_ends() {
        let chip = chips::Chip::by_name("l4").expect("an L4");
        let mut device = VirtualDevice::new(chip);
        let usual = device.options.budget;
        device.expect(1e6);
        assert_eq!(device.options.budget, usual);
        // One head of sixteen thousand queries and keys, on a plain kernel.
        device.expect(4.0 * 16384.0 * 16384.0 * 64.0);
        assert!(device.options.budget > 10_000_000_000);
        // What comes after it has its own.
        device.expect(1e6);
        assert_eq!(device.options.budget, usual);
    }
}
