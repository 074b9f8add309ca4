//! Runs a family's candidate on a device: checks its capabilities, arranges the problem's tensors for the kernel, and
//! returns the output with everything that the checks need.

mod capability;

use std::sync::Arc;

use family::{Candidate, Family, SettingError};
use op::{
    Addresses, Arrangement, CheckDevice, Input, Kernel, LaunchObservation, Output, StrayWrite, TensorShape,
};
use vgpu::tensor_map::Element;

pub(crate) use capability::check_features;
pub use capability::{MOST_KEYS_OF_ONE_LEVEL, Unsupported, axes, check, check_candidate, check_keys, sizes};

use crate::arguments::Arguments;
use crate::inputs::{Encoded, ServingInputs, each_packed_row};
use crate::problem::{Dtype, Problem, Serving};
use crate::tensor::{Layout, POISON_WORD, Shape, Strides, Tensor};

/// Why a kernel cannot run on a problem.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The family or the candidate does not support the problem.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The setting is not valid for the family.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The kernel cannot be built or cannot run.
    #[error(transparent)]
    Kernel(#[from] op::RunError),
    /// An input tensor has another shape, dtype, layout or number of scales than expected.
    #[error("the input {tensor} does not match {problem}")]
    Inputs {
        /// The tensor: `q`, `k` or `v`; or `serving` for lengths, sinks and pages.
        tensor: &'static str,
        /// The problem that the inputs must match.
        problem: Problem,
    },
}

/// The candidate of a preset (or of the defaults) for a problem, with overridden knobs as `(name, text)`. A problem
/// that the family does not support is refused here.
pub fn candidate(
    family: &Family,
    preset: Option<&str>,
    knobs: &[(String, String)],
    problem: &Problem,
) -> Result<Candidate, RunError> {
    check(family, problem, Layout::default(), false)?;
    Ok(family.candidate(preset, knobs, &axes(family, problem))?)
}

/// The results of a run, right or wrong.
#[derive(Clone, Debug)]
pub struct Run {
    /// O, in the inputs' layout. Elements that were not written contain [`crate::tensor::POISON`].
    pub output: Tensor,
    /// `[batch, heads, seq_q]`, if it was requested.
    pub lse: Option<Vec<f32>>,
    /// The virtual GPU's findings in each launch. Empty on a device without checks; this does not mean "nothing found".
    pub reports: Vec<vgpu::LaunchReport>,
    /// Writes outside every buffer, on devices that do not detect them themselves ([`CheckDevice::guard_bytes`]).
    pub stray_writes: Vec<StrayWrite>,
    /// Inputs that the kernel changed.
    pub changed_inputs: Vec<String>,
    /// Module variables that the kernel changed.
    pub changed_state: Vec<String>,
}

/// Runs a kernel once. An unsupported problem is refused before anything is allocated.
pub fn run(
    kernel: &Kernel<'_>,
    device: &mut dyn CheckDevice,
    problem: &Problem,
    inputs: &Encoded,
    want_lse: bool,
) -> Result<Run, RunError> {
    check(kernel.family, problem, inputs.q.layout, want_lse)?;
    check_candidate(&kernel.candidate, problem)?;
    check_inputs(problem, inputs)?;
    let arrangement = arrange(problem, inputs, want_lse);
    let layout = inputs.q.layout;
    let parameters =
        |addresses: &Addresses| vec![parameters(problem, inputs, addresses); kernel.family.entries().count()];
    let LaunchObservation { outputs, reports, stray_writes, changed_inputs, changed_state } =
        kernel.observe(device, &sizes(problem), &arrangement, &parameters)?;
    let (output, lse) = answer(problem, layout, outputs);
    Ok(Run { output, lse, reports, stray_writes, changed_inputs, changed_state })
}

/// The buffers of an attention kernel: the tensors, the FP8 scales, lengths, pages and sinks, and the poisoned outputs.
pub fn arrange(problem: &Problem, inputs: &Encoded, want_lse: bool) -> Arrangement {
    let cache = |tensor: &Tensor| inputs.serving.cache(problem, tensor);
    let cached = [packed_queries(problem, &inputs.q), cache(&inputs.k), cache(&inputs.v)];
    let tensors = [("q", "q_scale", &inputs.q), ("k", "k_scale", &inputs.k), ("v", "v_scale", &inputs.v)];
    let mut arranged = Vec::new();
    for ((name, scale_name, tensor), bytes) in tensors.into_iter().zip(cached) {
        let sign_bits = 8 * problem.dtype.bytes() as u32;
        arranged.push(Input { name: name.to_owned(), bytes: Arc::new(bytes), sign_bits });
        if let Some(scales) = &tensor.scales {
            let bytes = Arc::new(scales.iter().flat_map(|scale| scale.to_le_bytes()).collect());
            arranged.push(Input { name: scale_name.to_owned(), bytes, sign_bits: 0 });
        }
    }
    for (name, bytes) in inputs.serving.arrays() {
        arranged.push(Input { name: name.to_owned(), bytes: Arc::new(bytes), sign_bits: 0 });
    }
    let output = |name: &str, elements: usize, width: usize| {
        let (bytes, sign_bits) = (elements * width, 8 * width as u32);
        Output { name: name.to_owned(), bytes, blank: POISON_WORD, sign_bits, initial: None }
    };
    let shape = problem.stored_query_shape();
    let mut outputs = vec![output("o", shape.elements(), problem.output.bytes())];
    if want_lse {
        outputs.push(output("lse", shape.rows(), size_of::<f32>()));
    }
    let layout = inputs.q.layout;
    let cache = inputs.serving.cache_shape(problem);
    let [queries, keys] = [problem.stored_query_shape(), cache].map(|shape| layout.strides(shape));
    let shapes = [problem.stored_query_shape(), cache];
    let tensors = tensor_shapes(problem, shapes, [queries, keys, keys, queries]);
    Arrangement { inputs: arranged, outputs, tensors }
}

/// Q, K, V and O as (head_dim, sequence, head, batch), whatever their order in memory: a copy out of a head's range
/// then does not reach the next head. K and V have the shape `cache`: in pages, their positions and pages take the place of
/// sequence and batch.
pub(crate) fn tensor_shapes(
    problem: &Problem,
    [queries, cache]: [Shape; 2],
    strides: [Strides; 4],
) -> Vec<TensorShape> {
    let [q, k, v, o] = strides;
    vec![
        tensor_shape("q", queries, problem.dtype, q),
        tensor_shape("k", cache, problem.dtype, k),
        tensor_shape("v", cache, problem.dtype, v),
        tensor_shape("o", queries, problem.output, o),
    ]
}

/// A tensor as (head_dim, sequence, head, batch).
pub(crate) fn tensor_shape(name: &str, shape: Shape, dtype: Dtype, strides: Strides) -> TensorShape {
    let bytes = |elements: usize| (elements * dtype.bytes()) as u64;
    // A map has no empty dimension; no kernel copies keys that do not exist.
    let dims = [shape.head_dim, shape.seq, shape.heads, shape.batch].map(|extent| extent.max(1) as u64);
    let element = match dtype {
        Dtype::Fp16 => Element::F16,
        Dtype::Bf16 => Element::Bf16,
        Dtype::E4m3 => Element::U8,
    };
    TensorShape {
        name: name.to_owned(),
        element,
        dims: dims.to_vec(),
        strides: vec![bytes(strides.sequence), bytes(strides.head), bytes(strides.batch)],
    }
}

/// The parameter of every attention kernel, for these inputs in buffers at these addresses. Tensor maps, for families that
/// ask for them, follow it.
pub fn parameters(problem: &Problem, inputs: &Encoded, addresses: &Addresses) -> Vec<Vec<u8>> {
    let arguments = Arguments {
        q: addresses.address("q"),
        k: addresses.address("k"),
        v: addresses.address("v"),
        o: addresses.address("o"),
        lse: addresses.address("lse"),
        q_scale: addresses.address("q_scale"),
        k_scale: addresses.address("k_scale"),
        v_scale: addresses.address("v_scale"),
        workspace: addresses.workspace,
        key_lengths: addresses.address("key_lengths"),
        page_table: addresses.address("page_table"),
        sinks: addresses.address("sinks"),
        query_starts: addresses.address("query_starts"),
        key_starts: addresses.address("key_starts"),
        ..Arguments::for_cache(problem, inputs.q.layout, inputs.serving.cache_shape(problem))
    };
    vec![arguments.bytes()]
}

/// The queries as kernels read them.
fn packed_queries(problem: &Problem, q: &Tensor) -> Vec<u8> {
    if !problem.serving.packed {
        return q.bytes.clone();
    }
    let width = problem.head_dim * problem.dtype.bytes();
    let mut bytes = vec![0; problem.stored_query_shape().rows() * width];
    each_packed_row(problem, q.layout, |row, packed| {
        let [from, to] = [row, packed].map(|element| element * problem.dtype.bytes());
        bytes[to..to + width].copy_from_slice(&q.bytes[from..from + width]);
    });
    bytes
}

/// Converts the outputs of an arrangement to tensors by batch entry. Rows that a packed sequence does not have are zeros.
pub fn answer(problem: &Problem, layout: Layout, outputs: Vec<Vec<u8>>) -> (Tensor, Option<Vec<f32>>) {
    let blank = Tensor::poisoned(problem.query_shape(), problem.output, layout);
    let mut outputs = outputs.into_iter();
    let stored = outputs.next().unwrap_or_default();
    let lse = outputs.next().map(|bytes| floats(&bytes));
    if !problem.serving.packed {
        return (Tensor { bytes: stored, ..blank }, lse);
    }
    let width = problem.head_dim * problem.output.bytes();
    let mut bytes = vec![0; problem.query_shape().rows() * width];
    each_packed_row(problem, layout, |row, packed| {
        let [to, from] = [row, packed].map(|element| element * problem.output.bytes());
        bytes[to..to + width].copy_from_slice(&stored[from..from + width]);
    });
    let lse = lse.map(|stored| {
        let mut lse = vec![f32::NEG_INFINITY; problem.query_shape().rows()];
        each_packed_row(problem, Layout::Bhsd, |row, packed| {
            lse[row / problem.head_dim] = stored[packed / problem.head_dim];
        });
        lse
    });
    (Tensor { bytes, ..blank }, lse)
}

fn check_inputs(problem: &Problem, inputs: &Encoded) -> Result<(), RunError> {
    let ServingInputs { lengths, query_lengths, sinks, pages } = &inputs.serving;
    let Serving { ragged, packed, page_size, sink, .. } = problem.serving;
    let has = |what: Option<usize>, wanted: bool, count: usize| what == wanted.then_some(count);
    if !(has(lengths.as_ref().map(Vec::len), ragged.is_some(), problem.batch)
        && has(query_lengths.as_ref().map(Vec::len), packed, problem.batch)
        && has(sinks.as_ref().map(Vec::len), sink, problem.heads)
        && pages.is_some() == page_size.is_some())
    {
        return Err(RunError::Inputs { tensor: "serving", problem: *problem });
    }
    let tensors = [
        ("q", &inputs.q, problem.query_shape()),
        ("k", &inputs.k, problem.key_shape()),
        ("v", &inputs.v, problem.key_shape()),
    ];
    for (name, tensor, shape) in tensors {
        let scales = tensor.scales.as_ref().is_none_or(|scales| scales.len() == shape.all_heads());
        let bytes = tensor.bytes.len() == shape.elements() * problem.dtype.bytes();
        let matches =
            tensor.shape == shape && tensor.dtype == problem.dtype && tensor.layout == inputs.q.layout;
        if !(scales && bytes && matches) {
            return Err(RunError::Inputs { tensor: name, problem: *problem });
        }
    }
    Ok(())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_have_four_dimensions_in_any_layout() {
        let problem: Problem = "b2h8kv2sq17sk129d64-e4m3".parse().expect("a valid name");
        let shapes = |layout: Layout| {
            let [queries, keys] =
                [problem.query_shape(), problem.key_shape()].map(|shape| layout.strides(shape));
            let shapes = [problem.query_shape(), problem.key_shape()];
            tensor_shapes(&problem, shapes, [queries, keys, keys, queries])
        };
        let [_, k, _, o] = &shapes(Layout::Bshd)[..] else { panic!("four tensors") };
        assert_eq!((k.name.as_str(), k.element, &k.dims[..]), ("k", Element::U8, &[64, 129, 2, 2][..]));
        assert_eq!(k.strides, [2 * 64, 64, 129 * 2 * 64]);
        assert_eq!((o.name.as_str(), o.element), ("o", Element::F16));
        let [q, ..] = &shapes(Layout::Bhsd)[..] else { panic!("four tensors") };
        assert_eq!((&q.dims[..], &q.strides[..]), (&[64, 17, 8, 2][..], &[64, 17 * 64, 8 * 17 * 64][..]));
    }
}
