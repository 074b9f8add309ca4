//! How exact a plain implementation in fp32 is on some inputs.
//!
//! A sum whose terms cancel, a softmax of large numbers or the variance of nearly equal numbers is inexact in many fp32
//! implementations. So the reference itself runs in fp32, several times, on inputs that are moved by one rounding,
//! and its errors show what honest kernels can have. The limits of an output get a multiple of them in addition. They are
//! computed from the inputs and the reference, never from an answer, and only if an answer exceeds the limits without
//! them. A reference that converts its inputs to float64 shows only what the moved inputs change.

use std::sync::Arc;

use op::derive_seed;
use random::Random;

use crate::declaration::ReferenceSource;
use crate::declared_op::{DeclaredOp, DeclaredReference};
use crate::inputs::{DeclaredInputs, InputTensor};
use crate::rows::Precision;

/// How often the reference runs. Each time every number of the inputs moves up or down by one rounding, at random.
const DRAWS: u64 = 6;
/// Purpose number of the seeds of the roundings.
const ROUNDINGS: u64 = 0x5eed;
/// Half the distance from 1 to the next number of fp32.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;

impl DeclaredOp {
    /// The root mean square of the errors of every compared element; empty if it cannot be computed.
    pub(crate) fn conditioning(
        &self,
        inputs: &DeclaredInputs,
        reference: &DeclaredReference,
    ) -> Vec<Vec<f64>> {
        let is_python = matches!(self.declaration.reference, ReferenceSource::Python(_));
        if !is_python || self.declaration.has_fixed_inputs() {
            return Vec::new();
        }
        let mut squares: Vec<Vec<f64>> =
            reference.outputs.iter().map(|output| vec![0.0; output.values.len()]).collect();
        for draw in 0..DRAWS {
            let tensors = inputs.tensors.iter().enumerate();
            let seed = derive_seed(derive_seed(reference.sample, ROUNDINGS), draw);
            let tensors = tensors.map(|(index, tensor)| rounded(tensor, derive_seed(seed, index as u64)));
            let rounded = DeclaredInputs { tensors: tensors.collect(), ..inputs.clone() };
            let Ok(values) =
                self.reference_values(&inputs.problem, &rounded, reference.sample, Precision::Single)
            else {
                return Vec::new();
            };
            for ((squares, output), values) in squares.iter_mut().zip(&reference.outputs).zip(values.outputs)
            {
                for ((square, right), value) in squares.iter_mut().zip(&output.values).zip(values.numbers) {
                    let change = value - right;
                    if change.is_finite() {
                        *square += change * change / DRAWS as f64;
                    }
                }
            }
        }
        squares.into_iter().map(|squares| squares.into_iter().map(f64::sqrt).collect()).collect()
    }
}

impl DeclaredInputs {
    /// The lengths that a sum can have which no size of the op declares, the smallest first.
    pub(crate) fn possible_reductions(&self) -> impl Iterator<Item = f64> {
        let elements = self.tensors.iter().map(|tensor| tensor.dims.iter().product::<usize>());
        let most = elements.max().unwrap_or(1) as f64;
        (1..32).map(|step| f64::from(step).exp2()).take_while(move |length| *length < 2.0 * most)
    }
}

/// The tensor in fp32, with every number moved by one rounding. Integers stay as they are.
fn rounded(tensor: &InputTensor, seed: u64) -> InputTensor {
    if !tensor.dtype.is_float() {
        return tensor.clone();
    }
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(4 * tensor.bytes.len() / tensor.dtype.bytes());
    for number in tensor.dtype.floats(&tensor.bytes) {
        let step = if random.bits() & 1 == 0 { ROUNDING } else { -ROUNDING };
        bytes.extend(((number * (1.0 + step)) as f32).to_le_bytes());
    }
    InputTensor { dtype: launch::Dtype::F32, bytes: Arc::new(bytes), ..tensor.clone() }
}
