//! Compares a kernel with the two peak rates of the device: matrix arithmetic and memory bandwidth.

use chips::{Chip, TensorType};
use gpu::device::Device;
use op::Work;
use op::plausible::tensor_type;
use runlog::record::Roofline;
use runlog::{Ceiling, Speed, Time};

/// The two peak rates and their source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofs {
    pub tflops: f64,
    pub gb_per_s: f64,
    pub peaks: &'static str,
}

/// Returns the rates that were measured in the run if both were, otherwise those of the data sheet. `None` if the
/// device has no data sheet in the GPU table. An op without matrix products is compared with the fp32 rate.
pub fn roofs(device: &Device, ceilings: &[Ceiling], matrix: Option<&str>) -> Option<Roofs> {
    matrix.and_then(|matrix| measured(ceilings, matrix)).or_else(|| {
        let chip = match device {
            Device::Virtual { chip } => chip,
            Device::Cuda { name, .. } => Chip::by_name(name).ok()?,
        };
        data_sheet(chip, matrix)
    })
}

fn measured(ceilings: &[Ceiling], matrix: &str) -> Option<Roofs> {
    let tflops = ceilings.iter().rev().find_map(|ceiling| match ceiling.speed {
        Speed::MatrixTflops(rate) if ceiling.matrix.as_deref() == Some(matrix) => Some(rate),
        _ => None,
    })?;
    let gb_per_s = ceilings.iter().rev().find_map(|ceiling| match ceiling.speed {
        Speed::CopyGbPerS(rate) => Some(rate),
        _ => None,
    })?;
    Some(Roofs { tflops, gb_per_s, peaks: "measured in this run" })
}

fn data_sheet(chip: &Chip, matrix: Option<&str>) -> Option<Roofs> {
    let tflops = match matrix {
        None => chip.fp32_tflops(),
        // A chip without a rate for FP8 decodes FP8 and multiplies in fp16.
        Some(matrix) => {
            let kind = tensor_type(matrix)?;
            chip.tensor_tflops(kind).or_else(|| chip.tensor_tflops(TensorType::Fp16))?
        }
    };
    Some(Roofs { tflops, gb_per_s: chip.memory.gbs, peaks: "data sheet" })
}

/// Places a kernel that does `work` in `time` under the roofs. The intensity is that of the problem: every byte that
/// must cross the bus counts once.
pub fn under(roofs: Roofs, work: Work, time: Time) -> Roofline {
    Roofline {
        flops_per_byte: work.flops / (work.bytes.max(1)) as f64,
        tflops: work.flops / time.micros().max(f64::MIN_POSITIVE) * 1e-6,
        peak_tflops: roofs.tflops,
        peak_gb_per_s: roofs.gb_per_s,
        peaks: roofs.peaks.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::MeasuredMicros;

    fn ceiling(speed: Speed, matrix: Option<&str>) -> Ceiling {
        Ceiling { speed, matrix: matrix.map(str::to_owned), samples: 5 }
    }

    #[test]
    fn measured_roofs_are_used_if_the_run_has_both() {
        let chip = Chip::by_name("h200").unwrap();
        let device = Device::Virtual { chip };
        let matrix = ceiling(Speed::MatrixTflops(700.0), Some("fp16"));
        let copy = ceiling(Speed::CopyGbPerS(4300.0), None);
        let both = [matrix.clone(), copy];
        assert_eq!(roofs(&device, &both, Some("fp16")).unwrap().peaks, "measured in this run");
        assert_eq!(roofs(&device, &both, Some("fp16")).unwrap().tflops, 700.0);
        for (ceilings, dtype) in [(&both[..], "e4m3"), (&[matrix][..], "fp16"), (&[][..], "bf16")] {
            let roofs = roofs(&device, ceilings, Some(dtype)).unwrap();
            assert_eq!((roofs.peaks, roofs.gb_per_s), ("data sheet", chip.memory.gbs));
        }
        assert_eq!(roofs(&device, &[], Some("text")), None);
    }

    #[test]
    fn the_lower_roof_limits_a_kernel() {
        let roofs = Roofs { tflops: 1000.0, gb_per_s: 4000.0, peaks: "data sheet" };
        let placed =
            |flops: f64| under(roofs, Work { flops, bytes: 1_000_000 }, Time::Measured(MeasuredMicros(10.0)));
        let dense = placed(1e9);
        assert_eq!((dense.flops_per_byte, dense.tflops, dense.roof_tflops()), (1000.0, 100.0, 1000.0));
        let thin = placed(1e7);
        assert_eq!((thin.flops_per_byte, thin.roof_tflops()), (10.0, 40.0));
    }
}
