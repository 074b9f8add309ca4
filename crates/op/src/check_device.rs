//! What a check needs from a device besides launching.

use compiler::Build;
use gpu::accelerator::{Accelerator, Buffer, CudaDevice, Image, PooledDevice, VirtualDevice};

/// A device on which kernels are checked. The defaults fit a device that runs machine code and checks nothing.
pub trait CheckDevice: Accelerator {
    /// Size of the guard band on either side of every buffer. 0 if the device itself detects accesses outside its
    /// buffers. A multiple of 256, so that buffers stay as aligned as allocations.
    fn guard_bytes(&self) -> u64 {
        4096
    }

    /// The part of a build that this device runs.
    fn image<'b>(&self, build: &'b Build) -> Image<'b> {
        Image::Cubin(&build.cubin)
    }

    /// Declares the outputs of the next launch, for a device that checks that they are written. Several launches may write
    /// them together; `(first, last)` says whether the next one is the first of these, and whether it is the last.
    fn declare_outputs(&mut self, _outputs: &[Buffer], (_first, _last): (bool, bool)) {}

    /// Sets the expected arithmetic of the next launches, for a device that stops kernels which seem to run forever.
    fn expect(&mut self, _flops: f64) {}

    /// Stops counting, on a device that counts: only the first launch of a trial is counted.
    fn stop_counting(&mut self) {}

    /// Runs the next launches under all checkers, if the device has any.
    fn run_checkers(&mut self) {}
}

impl CheckDevice for CudaDevice {}

/// Lent devices are CUDA devices.
impl CheckDevice for PooledDevice {}

impl CheckDevice for VirtualDevice {
    fn guard_bytes(&self) -> u64 {
        0
    }

    fn image<'b>(&self, build: &'b Build) -> Image<'b> {
        Image::Ptx(&build.ptx)
    }

    fn declare_outputs(&mut self, outputs: &[Buffer], (first, last): (bool, bool)) {
        self.set_outputs(outputs);
        self.options.begins_outputs = first;
        self.options.ends_outputs = last;
    }

    fn expect(&mut self, flops: f64) {
        let usual = vgpu::Options::default().budget;
        self.options.budget = usual.max((flops / MIN_FLOPS_PER_INSTRUCTION) as u64);
    }

    fn stop_counting(&mut self) {
        self.options.counters = false;
    }

    fn run_checkers(&mut self) {
        self.options.checks = vgpu::Checks::All;
    }
}

/// The minimum of a problem's operations that one warp instruction does: a multiply-add of 32 lanes is 64 operations,
/// and a simple kernel has a dozen other instructions for each.
const MIN_FLOPS_PER_INSTRUCTION: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_problem_is_not_stopped_as_endless() {
        let chip = chips::Chip::by_name("l4").expect("an L4");
        let mut device = VirtualDevice::new(chip);
        let usual = device.options.budget;
        device.expect(1e6);
        assert_eq!(device.options.budget, usual);
        // One head with 16384 queries and keys, on a simple kernel.
        device.expect(4.0 * 16384.0 * 16384.0 * 64.0);
        assert!(device.options.budget > 10_000_000_000);
        // The next problem gets its own budget.
        device.expect(1e6);
        assert_eq!(device.options.budget, usual);
    }
}
