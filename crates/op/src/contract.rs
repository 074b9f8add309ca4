//! The op trait: everything that the workbench needs from an op.

use std::fmt;

use family::{Candidate, Family, SettingError, Sizes};
use serde::{Deserialize, Serialize};

use crate::arrangement::{Addresses, Arrangement, Input};

/// A request that cannot be fulfilled. It is refused before anything is compiled or launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why the request is refused.
    pub message: String,
    /// What would be allowed instead.
    pub hint: Option<String>,
}

impl Refusal {
    /// Returns a refusal without a hint.
    pub fn new(message: impl fmt::Display) -> Self {
        Refusal { message: message.to_string(), hint: None }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl From<SettingError> for Refusal {
    fn from(error: SettingError) -> Self {
        Refusal::new(&error).hint(error.hint())
    }
}

/// A built-in suite, as the text of its TOML file.
#[derive(Clone, Copy, Debug)]
pub struct SuiteText {
    /// The suite's name.
    pub name: &'static str,
    /// The contents of the TOML file.
    pub text: &'static str,
}

/// The minimum work of a problem, whatever the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Floating-point operations; a multiplication and an addition count as two.
    pub flops: f64,
    /// Bytes that must cross the memory bus.
    pub bytes: u64,
}

/// One defect of an answer or a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// A fixed name for programs: `unwritten`, `non-finite`, `constant`, `elements`, ...
    pub kind: String,
    /// The defect in words.
    pub message: String,
}

/// The result of comparing an answer with the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Relative L2 error.
    pub error: f64,
    /// Largest allowed relative L2 error.
    pub limit: f64,
    /// The largest absolute error of an element.
    pub worst: f64,
    /// Error from rounding the inputs to their format, relative to the original inputs. It is never part of `error`.
    pub quantisation: Option<f64>,
    /// How many elements were compared.
    pub compared: usize,
    /// How many elements the answer has.
    pub elements: usize,
    /// Empty if the answer is acceptable.
    pub complaints: Vec<Complaint>,
}

impl Judgement {
    /// Whether only some of the elements were compared.
    pub fn is_sampled(&self) -> bool {
        self.compared < self.elements
    }
}

/// A picture of the wrong elements of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// The picture as lines of characters, for a terminal.
    pub text: String,
    /// The picture as an SVG document.
    pub svg: String,
}

/// Implementations of an op by other projects, to compare our kernels with.
#[derive(Clone, Copy, Debug)]
pub struct Peers {
    /// The project that provides them: `pytorch`.
    pub package: &'static str,
    /// The names of the implementations: `flash`, `cudnn`.
    pub names: &'static [&'static str],
    /// A Python program that runs any of them and uses the protocol of the workers (`lab::worker`).
    pub script: &'static str,
}

/// A problem in the format of a peer's script.
#[derive(Clone, Debug)]
pub struct PeerProblem {
    /// The sizes and types of the problem, as a JSON object for the script.
    pub fields: serde_json::Value,
    /// The input tensors with the bytes that the script loads.
    pub inputs: Vec<Input>,
    /// Conversion of the inputs that is not timed, as text. Empty if peers get the same inputs as kernels.
    pub untimed_conversion: &'static str,
}

/// Decides whether problems can share a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Similarity {
    /// Problems of one kind differ only in size. The best setting for one kind says little about another kind.
    pub kind: String,
    /// Kinds whose settings are a sensible default where this kind has none, the best first.
    pub related: Vec<String>,
    /// The amount of work, on any scale: sizes are compared by their ratio.
    pub size: f64,
}

/// An op: what is computed, on which inputs, and with which tolerances.
pub trait Op: Sync {
    /// A size and type of the inputs.
    type Problem: Clone + fmt::Debug + fmt::Display + PartialEq + Send + Sync;
    /// The values of the inputs.
    type Inputs: Send + Sync;
    /// The reference for some inputs.
    type Reference: Send + Sync;

    /// The folder of its families under `kernels/`.
    fn name(&self) -> &'static str;

    /// The problems that a name or an alias stands for.
    fn problems(&self, text: &str) -> Result<Vec<Self::Problem>, Refusal>;

    /// The problem with these fields, as written in a suite's table.
    fn problem_from_fields(&self, fields: &toml::Table) -> Result<Self::Problem, Refusal>;

    /// The built-in suites.
    fn suites(&self) -> &'static [SuiteText];

    /// The problem names that `check` uses by default: problems that people measure.
    fn default_problems(&self) -> Vec<String>;
    /// More problem names that `check` uses by default: shapes at which kernels have edge cases.
    fn edge_problems(&self) -> Vec<String>;

    /// A random problem of the kind that finds faults. The same draw gives the same problem.
    fn fuzzed(&self, draw: u64) -> Self::Problem;

    /// The candidate of a preset (or of the defaults) for a problem, with knobs overridden as `(name, text)`. Refuses
    /// what the family does not support, with a message about the problem.
    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &Self::Problem,
    ) -> Result<Candidate, Refusal>;

    /// The run-time sizes of a problem, for the launch rule of the family.
    fn sizes(&self, problem: &Self::Problem) -> Sizes;

    /// The minimum work of a problem.
    fn work(&self, problem: &Self::Problem) -> Work;

    /// Describes which problems can share a tuned setting with this one.
    fn similarity(&self, problem: &Self::Problem) -> Similarity;

    /// Families in the order in which to try them for a problem without a tuned setting. Other families come last.
    fn preferred_families(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reduces a problem to at most about `flops` operations, in dimensions that repeat the same work (batch and heads
    /// first). The result must keep every edge case of the original.
    fn cut(&self, problem: &Self::Problem, flops: f64) -> Self::Problem;

    /// The classes of inputs, the ordinary class first.
    fn classes(&self) -> Vec<&'static str>;

    /// The classes that are numerically hardest. Every kernel runs on one of them at full size.
    fn hard_classes(&self) -> Vec<&'static str>;

    /// The inputs of a problem. The same class and seed give the same inputs everywhere.
    fn inputs(&self, problem: &Self::Problem, class: &str, seed: u64) -> Result<Self::Inputs, Refusal>;

    /// The inputs for timing: drawn like [`Op::inputs`], in the layout that peers expect.
    fn timed_inputs(&self, problem: &Self::Problem, class: &str, seed: u64) -> Result<Self::Inputs, Refusal>;

    /// Inputs of a class in which every number has the opposite sign of that in `inputs`, in a different layout if
    /// there is one. A kernel that is correct only if some element is positive is wrong on one of the two.
    fn opposite(
        &self,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        class: &str,
        seed: u64,
    ) -> Result<Self::Inputs, Refusal>;

    /// The element type of the matrix products of a problem, for which a ceiling is measured: `fp16`.
    fn matrix_type(&self, problem: &Self::Problem) -> &'static str;

    /// The peers of the op; `None` if none are known.
    fn peers(&self) -> Option<Peers>;

    /// Converts a problem and its inputs to the format of the peers.
    fn peer_problem(&self, problem: &Self::Problem, inputs: &Self::Inputs) -> PeerProblem;

    /// Compares a peer's output with the reference. A peer with a wrong answer cannot be a baseline.
    fn judge_peer(&self, inputs: &Self::Inputs, reference: &Self::Reference, output: Vec<u8>) -> Judgement;

    /// The names of the inputs that can be redrawn one by one.
    fn input_names(&self) -> &'static [&'static str];

    /// The inputs with one of them drawn from another seed.
    fn redraw(&self, problem: &Self::Problem, inputs: &Self::Inputs, which: &str, seed: u64) -> Self::Inputs;

    /// The buffers that a kernel of the family needs for these inputs.
    fn arrange(&self, family: &Family, problem: &Self::Problem, inputs: &Self::Inputs) -> Arrangement;

    /// The kernel's parameters for an arrangement at these addresses.
    fn parameters(
        &self,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        addresses: &Addresses,
    ) -> Vec<Vec<u8>>;

    /// The reference, computed in a slow and simple way. For a large problem it covers only some rows, which `sample`
    /// selects.
    fn reference(&self, problem: &Self::Problem, inputs: &Self::Inputs, sample: u64) -> Self::Reference;

    /// The extra tolerance of a kernel on a problem, as text for every verdict. It is granted only if the family asks
    /// for it and the kernel's instructions show why. Otherwise the op's own tolerance holds.
    fn extra_tolerance(&self, family: &Family, problem: &Self::Problem, ptx: &str) -> Option<String>;

    /// Compares a kernel's outputs, in the arrangement's order, with the reference. `extra`: the kernel has
    /// [`Op::extra_tolerance`].
    fn judge(
        &self,
        extra: bool,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: &[Vec<u8>],
    ) -> Judgement;

    /// Reports an answer that ignores an input. `before` and `after` are pairs of reference and answer; only that input
    /// was redrawn between them.
    fn ignored_input(
        &self,
        extra: bool,
        which: &str,
        before: (&Self::Reference, &[Vec<u8>]),
        after: (&Self::Reference, &[Vec<u8>]),
    ) -> Option<Complaint>;

    /// A picture of the wrong elements; `None` if the answer is correct.
    fn picture(
        &self,
        candidate: &Candidate,
        extra: bool,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: &[Vec<u8>],
    ) -> Option<Picture>;
}
