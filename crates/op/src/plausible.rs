//! Whether a time can be true. Times that others have written (a resumed log, a tuned table, a leaderboard) are
//! untrusted, and a kernel can deceive a timer.

use chips::{Chip, TensorType};
use times::Time;
use vgpu::model::LAUNCH_MICROS;

use crate::contract::Work;

/// No launch takes less time, in microseconds: a tiny kernel in a CUDA graph took 1.2 us on an H200.
const SHORTEST_US: f64 = 0.5;
/// No launch that is timed takes longer: a day.
const LONGEST_US: f64 = 86_400e6;
/// The L2 bandwidth in the GPU table is an estimate from measurements, so it gets a margin.
const L2_MARGIN: f64 = 1.5;

/// Returns the shortest plausible time in microseconds: what the device needs at best for the arithmetic on its matrix
/// units, or for the memory traffic through its caches. `None` if the GPU table has no rate for the number format.
fn floor_us(chip: &Chip, work: Work, matrix: Option<&str>) -> Option<f64> {
    // An op without matrix products may still use the matrix units.
    let rate = matrix
        .and_then(tensor_type)
        .and_then(|kind| chip.tensor_tflops(kind))
        .or_else(|| chip.tensor_tflops(TensorType::Fp16))?;
    // Data-sheet rates assume a lower clock than the highest clock of the GPU.
    let rate = rate * f64::from(chip.clocks.boost_mhz) / f64::from(chip.clocks.tensor_mhz);
    let arithmetic = work.flops / rate * 1e-6;
    let memory = work.bytes as f64 / (chip.l2.gbs_estimate * L2_MARGIN) * 1e-3;
    Some(arithmetic.max(memory))
}

/// Returns the tensor-core type of an element type.
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

/// The name of a GPU without the mark of a virtual one. `None` if the GPU is real.
fn virtual_name(gpu: &str) -> Option<&str> {
    gpu.strip_prefix("virtual").and_then(|rest| rest.strip_prefix([' ', ':']))
}

/// Returns why a time on a GPU cannot be true: a virtual GPU has only modelled times, and no GPU is faster than its
/// launches and its peak rates. `gpu` is the name in logs and tables: `NVIDIA H200`, `virtual l4`. `work` is the
/// problem's minimum of work, with the type of its matrix products.
pub fn implausible_reason(gpu: &str, time: Time, work: Option<(Work, Option<&str>)>) -> Option<String> {
    let micros = time.micros();
    let virtual_gpu = virtual_name(gpu);
    if virtual_gpu.is_some() && !time.is_modelled() {
        return Some(format!("{micros:.4e} us is a measured time, but {gpu} has only modelled times"));
    }
    let shortest = if time.is_modelled() { LAUNCH_MICROS } else { SHORTEST_US };
    if !(shortest..=LONGEST_US).contains(&micros) {
        let message = format!("no launch takes less than {shortest} us or more than a day");
        return Some(format!("{micros:.4e} us is not a plausible time: {message}"));
    }
    let chip = Chip::by_name(virtual_gpu.unwrap_or(gpu)).ok()?;
    let (work, matrix) = work?;
    let floor = floor_us(chip, work, matrix)?;
    (micros < floor).then(|| {
        format!(
            "{micros:.2} us is less than the {floor:.2} us that the problem's arithmetic and memory take at the \
             device's peak rates"
        )
    })
}

#[cfg(test)]
mod tests {
    use times::{MeasuredMicros, ModelledMicros};

    use super::*;

    fn measured(gpu: &str, micros: f64, work: Option<(Work, Option<&str>)>) -> Option<String> {
        implausible_reason(gpu, Time::Measured(MeasuredMicros(micros)), work)
    }

    #[test]
    fn a_time_below_the_floor_is_implausible() {
        // S = 16384, D = 128: an H200 reaches about 1,070 TFLOP/s at its highest clock.
        let work = Work { flops: 2.2e12, bytes: 1 << 28 };
        let chip = Chip::by_name("h200").unwrap();
        let floor = floor_us(chip, work, Some("fp16")).unwrap();
        assert!((1900.0..2300.0).contains(&floor), "{floor}");
        let work = Some((work, Some("fp16")));
        assert_eq!(measured("NVIDIA H200", 3100.0, work), None);
        assert!(measured("NVIDIA H200", 1500.0, work).unwrap().contains("peak rates"));
        let modelled = Time::Modelled(ModelledMicros(1500.0));
        assert!(implausible_reason("virtual h200", modelled, work).unwrap().contains("peak rates"));
        let copy = Work { flops: 1.0, bytes: 1 << 30 };
        assert!(floor_us(chip, copy, Some("fp16")).unwrap() > 50.0);
    }

    #[test]
    fn a_launch_takes_some_time_on_every_gpu() {
        assert_eq!(measured("a GPU of the future", 1.2, None), None);
        for micros in [0.0, 0.0001, 0.001, 1e300, f64::NAN] {
            assert!(measured("a GPU of the future", micros, None).unwrap().contains("not a plausible time"));
        }
    }

    #[test]
    fn a_virtual_gpu_has_no_measured_times() {
        for gpu in ["virtual h200", "virtual:l4"] {
            assert!(measured(gpu, 10.0, None).unwrap().contains("only modelled times"));
            assert_eq!(implausible_reason(gpu, Time::Modelled(ModelledMicros(10.0)), None), None);
            // The model adds the time of a launch to everything.
            let reason = implausible_reason(gpu, Time::Modelled(ModelledMicros(1.1)), None).unwrap();
            assert!(reason.contains("less than 1.2 us"), "{reason}");
        }
    }
}
