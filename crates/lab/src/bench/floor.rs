//! The shortest plausible time of a problem: what the device needs at best for the arithmetic on its matrix units, or
//! for the memory traffic through its caches.

use chips::Chip;
use gpu::device::Device;
use op::Work;

use crate::roofline::tensor_type;

/// The L2 bandwidth in the GPU table is an estimate from measurements, so it gets a margin.
const L2_MARGIN: f64 = 1.5;

/// Returns the shortest plausible time in microseconds. `None` if the GPU table has no entry for the device or the
/// number format.
pub fn floor_us(device: &Device, work: Work, matrix: Option<&str>) -> Option<f64> {
    let chip = match device {
        Device::Virtual { chip } => chip,
        Device::Cuda { name, .. } => Chip::by_name(name).ok()?,
    };
    // An op without matrix products may still use the matrix units.
    let rate = matrix
        .and_then(tensor_type)
        .and_then(|kind| chip.tensor_tflops(kind))
        .or_else(|| chip.tensor_tflops(chips::TensorType::Fp16))?;
    // Data-sheet rates assume a lower clock than the highest clock of the GPU.
    let rate = rate * f64::from(chip.clocks.boost_mhz) / f64::from(chip.clocks.tensor_mhz);
    let arithmetic = work.flops / rate * 1e-6;
    let memory = work.bytes as f64 / (chip.l2.gbs_estimate * L2_MARGIN) * 1e-3;
    Some(arithmetic.max(memory))
}

/// Returns why a time is rejected if it is below the floor.
pub fn implausible_reason(device: &Device, work: Work, matrix: Option<&str>, micros: f64) -> Option<String> {
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
    fn a_time_below_the_floor_is_rejected() {
        let device = Device::Virtual { chip: Chip::by_name("h200").unwrap() };
        // S = 16384, D = 128: an H200 reaches about 1,070 TFLOP/s at its highest clock.
        let work = Work { flops: 2.2e12, bytes: 1 << 28 };
        let floor = floor_us(&device, work, Some("fp16")).unwrap();
        assert!((1900.0..2300.0).contains(&floor), "{floor}");
        assert_eq!(implausible_reason(&device, work, Some("fp16"), 3100.0), None);
        assert!(implausible_reason(&device, work, Some("fp16"), 1500.0).unwrap().contains("[implausible]"));
        let copy = Work { flops: 1.0, bytes: 1 << 30 };
        assert!(floor_us(&device, copy, Some("fp16")).unwrap() > 50.0);
    }
}
