//! Where a kernel stands under the device's two roofs: what its matrix units can do, and what its memory can deliver.

use chips::{Chip, TensorType};
use gpu::device::Device;
use op::Work;

use super::Roofline;
use crate::run::{Ceiling, Speed, Time};

/// The two roofs, with where they come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofs {
    pub tflops: f64,
    pub gb_per_s: f64,
    pub peaks: &'static str,
}

/// What was measured in the run if all of it was, else the data sheet; `None` for a device nobody has one of.
pub fn roofs(device: &Device, ceilings: &[Ceiling], matrix: &str) -> Option<Roofs> {
    measured(ceilings, matrix).or_else(|| {
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

/// The matrix units' name for an element type.
pub fn tensor_type(matrix: &str) -> Option<TensorType> {
    Some(match matrix {
        "fp16" => TensorType::Fp16,
        "bf16" => TensorType::Bf16,
        "e4m3" | "e5m2" => TensorType::Fp8,
        "tf32" => TensorType::Tf32,
        "int8" => TensorType::Int8,
        "fp64" => TensorType::Fp64,
        _ => return None,
    })
}

fn data_sheet(chip: &Chip, matrix: &str) -> Option<Roofs> {
    let kind = tensor_type(matrix)?;
    // A chip without a rate for FP8 decodes it and multiplies halves.
    let tflops = chip.tensor_tflops(kind).or_else(|| chip.tensor_tflops(TensorType::Fp16))?;
    Some(Roofs { tflops, gb_per_s: chip.memory.gbs, peaks: "data sheet" })
}

/// A kernel that does `work` in `time`. Its intensity is the problem's: bytes that must cross the bus, once each.
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
    use crate::run::MeasuredMicros;

    fn ceiling(speed: Speed, matrix: Option<&str>) -> Ceiling {
        Ceiling { speed, matrix: matrix.map(str::to_owned), samples: 5 }
    }

    #[test]
    fn roofs_are_those_of_the_run_if_it_has_both() {
        let chip = Chip::by_name("h200").unwrap();
        let device = Device::Virtual { chip };
        let matrix = ceiling(Speed::MatrixTflops(700.0), Some("fp16"));
        let copy = ceiling(Speed::CopyGbPerS(4300.0), None);
        let both = [matrix.clone(), copy];
        assert_eq!(roofs(&device, &both, "fp16").unwrap().peaks, "measured in this run");
        assert_eq!(roofs(&device, &both, "fp16").unwrap().tflops, 700.0);
        for (ceilings, dtype) in [(&both[..], "e4m3"), (&[matrix][..], "fp16"), (&[][..], "bf16")] {
            let roofs = roofs(&device, ceilings, dtype).unwrap();
            assert_eq!((roofs.peaks, roofs.gb_per_s), ("data sheet", chip.memory.gbs));
        }
        assert_eq!(roofs(&device, &[], "text"), None);
    }

    #[test]
    fn a_kernel_stands_below_the_lower_roof() {
        let roofs = Roofs { tflops: 1000.0, gb_per_s: 4000.0, peaks: "data sheet" };
        let stands =
            |flops: f64| under(roofs, Work { flops, bytes: 1_000_000 }, Time::Measured(MeasuredMicros(10.0)));
        let dense = stands(1e9);
        assert_eq!((dense.flops_per_byte, dense.tflops, dense.roof_tflops()), (1000.0, 100.0, 1000.0));
        let thin = stands(1e7);
        assert_eq!((thin.flops_per_byte, thin.roof_tflops()), (10.0, 40.0));
    }
}
