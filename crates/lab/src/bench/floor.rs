//! The time below which no kernel can be: what the device's matrix units or its caches need for the work at best.

use chips::Chip;
use gpu::device::Device;
use op::Work;

use crate::profile::roofline::tensor_type;

/// The L2's bandwidth is an estimate from measurements.
const L2_MARGIN: f64 = 1.5;

/// Microseconds. `None` for a device or a number format the table of GPUs does not have.
pub fn floor_us(device: &Device, work: Work, matrix: &str) -> Option<f64> {
    let chip = match device {
        Device::Virtual { chip } => chip,
        Device::Cuda { name, .. } => Chip::by_name(name).ok()?,
    };
    let rate = tensor_type(matrix)
        .and_then(|kind| chip.tensor_tflops(kind))
        .or_else(|| chip.tensor_tflops(chips::TensorType::Fp16))?;
    // Data sheets count at a lower clock than a GPU may run at.
    let rate = rate * f64::from(chip.clocks.boost_mhz) / f64::from(chip.clocks.tensor_mhz);
    let arithmetic = work.flops / rate * 1e-6;
    let memory = work.bytes as f64 / (chip.l2.gbs_estimate * L2_MARGIN) * 1e-3;
    Some(arithmetic.max(memory))
}

/// Why a time is no result, where it is below the floor.
pub fn implausible(device: &Device, work: Work, matrix: &str, micros: f64) -> Option<String> {
    let floor = floor_us(device, work, matrix)?;
    (micros < floor).then(|| {
        format!(
            "[implausible] {micros:.2} us is less than the {floor:.2} us that the problem's arithmetic and memory take \
             at the device's peak rates"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_above_the_peak_rate_is_no_result() {
        let device = Device::Virtual { chip: Chip::by_name("h200").unwrap() };
        // S = 16384, D = 128: an H200 does some 1,070 TFLOP/s at its highest clock.
        let work = Work { flops: 2.2e12, bytes: 1 << 28 };
        let floor = floor_us(&device, work, "fp16").unwrap();
        assert!((1900.0..2300.0).contains(&floor), "{floor}");
        assert_eq!(implausible(&device, work, "fp16", 3100.0), None);
        assert!(implausible(&device, work, "fp16", 1500.0).unwrap().contains("[implausible]"));
        let copy = Work { flops: 1.0, bytes: 1 << 30 };
        assert!(floor_us(&device, copy, "fp16").unwrap() > 50.0);
    }
}
