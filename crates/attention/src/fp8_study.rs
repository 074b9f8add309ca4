//! What FP8 costs and gains for fp16 and bf16 tensors: the errors of quantised attention by kind of inputs, scales and
//! rotation, and the times of its parts beside the time of attention without FP8.
//!
//! Errors are compared with float64 on the tensors before they are quantised, so they contain the error of the format and
//! the error of the kernel.

use std::fmt;
use std::str::FromStr;

use random::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use times::ModelledMicros;

use crate::forward::{Buffer, Device, ForwardError, Options, Quantisation, Stream, Tensors, Time, View};
use crate::inputs::{Class, Encoded, Inputs};
use crate::metrics::{self, Tolerance, Weights};
use crate::oracle::{self, Reference, Rows};
use crate::problem::{Dtype, Problem};
use crate::tensor::{Layout, Shape, Tensor};

/// Multiply-adds that the oracle may use for one reference; see [`Rows::within`].
const ORACLE_BUDGET: u64 = 600_000_000;

/// The kinds of inputs on which FP8 formats differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StudyClass {
    /// Mean 0, variance 1 ([`Class::Normal`]).
    Normal,
    /// One element in 500 is 64 times as large ([`Class::Outliers`]).
    Outliers,
    /// An attention sink: queries and the first key have a common direction, so that the score of this key is about 8
    /// higher in every row.
    Sink,
}

impl StudyClass {
    /// All kinds.
    pub const ALL: [StudyClass; 3] = [StudyClass::Normal, StudyClass::Outliers, StudyClass::Sink];

    /// The name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            StudyClass::Normal => "normal",
            StudyClass::Outliers => "outliers",
            StudyClass::Sink => "sink",
        }
    }

    /// The inputs of a problem.
    pub fn inputs(self, problem: &Problem, seed: u64) -> Inputs {
        match self {
            StudyClass::Normal => Inputs::generate(problem, Class::Normal, seed),
            StudyClass::Outliers => Inputs::generate(problem, Class::Outliers, seed),
            StudyClass::Sink => with_sink(problem, Inputs::generate(problem, Class::Normal, seed), seed),
        }
    }
}

impl fmt::Display for StudyClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StudyClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = StudyClass::ALL.into_iter().find(|class| class.name() == text);
        found.ok_or_else(|| {
            let known = StudyClass::ALL.map(StudyClass::name).join(", ");
            format!("`{text}` is not a kind of inputs here; expected one of {known}")
        })
    }
}

/// Adds a common direction to all queries and to the first key of every head.
fn with_sink(problem: &Problem, mut inputs: Inputs, seed: u64) -> Inputs {
    const SCORE: f64 = 8.0;
    let width = problem.head_dim;
    // The product of the two parts is SCORE * sqrt(width); the softmax scale divides it by sqrt(width).
    let length = (SCORE * (width as f64).sqrt()).sqrt();
    let mut random = Random::new(seed).after(3);
    let direction: Vec<f64> = (0..width).map(|_| random.normal()).collect();
    let norm = direction.iter().map(|it| it * it).sum::<f64>().sqrt();
    let part: Vec<f32> = direction.iter().map(|it| (it / norm * length) as f32).collect();
    let add = |row: &mut [f32]| row.iter_mut().zip(&part).for_each(|(value, more)| *value += more);
    inputs.q.data.chunks_exact_mut(width).for_each(add);
    let head_elements = problem.key_shape().head_elements();
    if head_elements > 0 {
        inputs.k.data.chunks_exact_mut(head_elements).for_each(|head| add(&mut head[..width]));
    }
    inputs
}

/// One way to compute attention on one kind of inputs.
#[derive(Clone, Debug, Serialize)]
pub struct StudyRow {
    /// The kind of inputs.
    pub class: StudyClass,
    /// How the tensors are quantised; `None` for attention without FP8.
    pub quantisation: Option<Quantisation>,
    /// The attention kernel.
    pub kernel: String,
    /// The kernels that quantise.
    pub quantise_kernels: Vec<String>,
    /// Relative L2 error; infinite if an element is not finite.
    pub relative_l2: f64,
    /// The largest absolute error of an element.
    pub largest_error: f64,
    /// The time of quantising Q, K and V.
    pub quantise: Option<Time>,
    /// The time of attention.
    pub attention: Time,
    /// The time of both together.
    pub total: Time,
}

/// The tensors of one kind of inputs on a device, and the right answer.
pub struct Study<'d> {
    device: &'d Device,
    problem: Problem,
    class: StudyClass,
    reference: Reference,
    inputs: [Buffer; 3],
}

impl fmt::Debug for Study<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Study({} {})", self.problem, self.class)
    }
}

impl<'d> Study<'d> {
    /// Generates inputs in fp16 or bf16, computes the right answer, and copies the inputs to the device.
    pub fn new(
        device: &'d Device,
        problem: &Problem,
        class: StudyClass,
        seed: u64,
    ) -> Result<Self, ForwardError> {
        let encoded = class.inputs(problem, seed).encode(problem.dtype, Layout::Bhsd);
        let rows = Rows::within(problem, ORACLE_BUDGET, seed);
        let reference = oracle::attention(problem, &encoded.decode(), rows);
        let Encoded { q, k, v, .. } = &encoded;
        let inputs =
            [device.upload("q", &q.bytes)?, device.upload("k", &k.bytes)?, device.upload("v", &v.bytes)?];
        Ok(Study { device, problem: *problem, class, reference, inputs })
    }

    /// The number of rows of the output that are compared.
    pub fn compared_rows(&self) -> usize {
        self.reference.rows.list().len()
    }

    /// Computes attention in one way, and times it.
    pub fn row(&self, quantisation: Option<Quantisation>) -> Result<StudyRow, ForwardError> {
        match quantisation {
            Some(quantisation) => self.quantised(quantisation),
            None => self.unquantised(),
        }
    }

    /// Frees the inputs.
    pub fn close(self) -> Result<(), ForwardError> {
        self.inputs.into_iter().try_for_each(|buffer| self.device.free(buffer))
    }

    fn unquantised(&self) -> Result<StudyRow, ForwardError> {
        let plan = self.device.plan(&self.problem)?;
        let memory = self.memory(self.problem.output, plan.workspace_bytes())?;
        let attention = self.device.time(|stream| plan.launch(&memory.tensors, &memory.options(stream)))?;
        let (relative_l2, largest_error) = self.errors(memory)?;
        Ok(StudyRow {
            class: self.class,
            quantisation: None,
            kernel: plan.kernel().to_owned(),
            quantise_kernels: Vec::new(),
            relative_l2,
            largest_error,
            quantise: None,
            attention,
            total: attention,
        })
    }

    fn quantised(&self, quantisation: Quantisation) -> Result<StudyRow, ForwardError> {
        let plan = self.device.quantised_plan(&self.problem, quantisation)?;
        let memory = self.memory(Dtype::E4m3.output(), plan.workspace_bytes())?;
        let time = |work: &dyn Fn(&Options) -> Result<(), ForwardError>| {
            self.device.time(|stream| work(&memory.options(stream)))
        };
        let quantise = time(&|options| plan.quantise(&memory.tensors, options))?;
        let attention = time(&|options| plan.attend(&memory.tensors, options))?;
        let total = match (quantise, attention) {
            (Time::Modelled(first), Time::Modelled(second)) => {
                Time::Modelled(ModelledMicros(first.0 + second.0))
            }
            _ => time(&|options| plan.launch(&memory.tensors, options))?,
        };
        let (relative_l2, largest_error) = self.errors(memory)?;
        Ok(StudyRow {
            class: self.class,
            quantisation: Some(quantisation),
            kernel: plan.attention_kernel().to_owned(),
            quantise_kernels: plan.quantise_kernels().into_iter().map(str::to_owned).collect(),
            relative_l2,
            largest_error,
            quantise: Some(quantise),
            attention,
            total,
        })
    }

    /// A poisoned output and a workspace, with the views of all tensors.
    fn memory(&self, output: Dtype, workspace_bytes: u64) -> Result<Memory, ForwardError> {
        let blank = Tensor::poisoned(self.problem.query_shape(), output, Layout::Bhsd);
        let o = self.device.upload("o", &blank.bytes)?;
        let workspace = self.device.allocate("workspace", workspace_bytes)?;
        let view = |buffer: Buffer, dtype: Dtype, shape: Shape| View {
            address: buffer.address,
            dtype,
            shape,
            strides: Layout::Bhsd.strides(shape),
        };
        let (queries, keys) = (self.problem.query_shape(), self.problem.key_shape());
        let [q, k, v] = self.inputs;
        let tensors = Tensors {
            q: view(q, self.problem.dtype, queries),
            k: view(k, self.problem.dtype, keys),
            v: view(v, self.problem.dtype, keys),
            o: view(o, output, queries),
        };
        Ok(Memory { tensors, o, workspace, mask: self.problem.mask, blank })
    }

    /// Relative L2 error and largest error of an output. Frees its memory.
    fn errors(&self, memory: Memory) -> Result<(f64, f64), ForwardError> {
        let output = Tensor { bytes: self.device.read(memory.o)?, ..memory.blank };
        self.device.free(memory.o)?;
        self.device.free(memory.workspace)?;
        // Only the errors are used, not whether they are acceptable.
        let tolerance = Tolerance::new(self.problem.dtype, Weights::Half);
        let comparison = metrics::compare(&self.reference, &output, None, tolerance);
        Ok((comparison.relative_l2, comparison.worst.map_or(0.0, |element| element.error())))
    }
}

/// The output and the workspace of one way to compute attention.
struct Memory {
    tensors: Tensors,
    o: Buffer,
    workspace: Buffer,
    mask: crate::problem::Mask,
    blank: Tensor,
}

impl Memory {
    fn options(&self, stream: Stream) -> Options {
        Options { mask: self.mask, stream, workspace: Some(self.workspace), ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_of_a_sink_has_higher_scores() {
        let problem: Problem = "b1h2s64d64-fp16".parse().expect("a valid name");
        let inputs = StudyClass::Sink.inputs(&problem, 5);
        let scores = |head: usize, key: usize| -> f64 {
            let (q, k) = (inputs.q.head(0, head), &inputs.k.head(0, head)[key * 64..(key + 1) * 64]);
            let product = |row: &[f32]| -> f64 { row.iter().zip(k).map(|(a, b)| f64::from(a * b)).sum() };
            q.chunks_exact(64).map(product).sum::<f64>() / 64.0 / 8.0
        };
        for head in 0..2 {
            let (sink, other) = (scores(head, 0), (1..64).map(|key| scores(head, key)).sum::<f64>() / 63.0);
            assert!((5.0..11.0).contains(&(sink - other)), "{sink} {other}");
        }
    }

    #[test]
    fn an_unknown_class_is_refused() {
        assert_eq!("sink".parse(), Ok(StudyClass::Sink));
        assert_eq!(
            "tiny".parse::<StudyClass>(),
            Err("`tiny` is not a kind of inputs here; expected one of normal, outliers, sink".to_owned())
        );
    }
}
