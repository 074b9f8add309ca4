//! The op trait: everything the workbench asks of an op.

use std::fmt;

use family::{Candidate, Family, SettingError, Sizes};
use serde::{Deserialize, Serialize};

use crate::arrangement::{Addresses, Arrangement, Input};
use crate::tuned::Likeness;

/// What is asked for cannot be: said before anything is compiled or launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub message: String,
    /// What would be allowed instead.
    pub hint: Option<String>,
}

impl Refusal {
    pub fn new(message: impl fmt::Display) -> Self {
        Refusal { message: message.to_string(), hint: None }
    }

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
    pub name: &'static str,
    pub text: &'static str,
}

/// What a problem takes at least, whatever the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    pub flops: f64,
    /// Bytes that must cross the memory bus.
    pub bytes: u64,
}

/// One thing that is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complaint {
    /// A word programs can tell apart: `unwritten`, `non-finite`, `constant`, `elements`, ...
    pub kind: String,
    pub message: String,
}

/// An answer held against the right one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Relative error in L2, and what it may be.
    pub error: f64,
    pub limit: f64,
    /// The largest absolute error of an element.
    pub worst: f64,
    /// What the input format alone costs, against the inputs before they were rounded to it; never part of `error`.
    pub quantisation: Option<f64>,
    /// How many elements were compared, and how many there are.
    pub compared: usize,
    pub elements: usize,
    /// Empty: acceptable.
    pub complaints: Vec<Complaint>,
}

impl Judgement {
    /// Whether only a part of the elements was compared.
    pub fn is_sampled(&self) -> bool {
        self.compared < self.elements
    }
}

/// Where an answer is wrong, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub text: String,
    pub svg: String,
}

/// Other people's implementations of an op, to be measured beside ours.
#[derive(Clone, Copy, Debug)]
pub struct Peers {
    /// Whose they are: `pytorch`.
    pub package: &'static str,
    pub names: &'static [&'static str],
    /// A Python program that runs any of them and speaks the workers' protocol (`lab::worker`).
    pub script: &'static str,
}

/// A problem as a peer's script takes it.
#[derive(Clone, Debug)]
pub struct PeerProblem {
    pub fields: serde_json::Value,
    pub inputs: Vec<Input>,
    /// What is done to the inputs beforehand and not timed, by name; empty where they are what kernels get.
    pub beforehand: &'static str,
}

/// An op: what is computed, on what, and how right it must be.
pub trait Op: Sync {
    type Problem: Clone + fmt::Debug + fmt::Display + PartialEq + Send + Sync;
    type Inputs: Send + Sync;
    type Reference: Send + Sync;

    /// The folder of its families under `kernels/`.
    fn name(&self) -> &'static str;

    /// The problems a name or an alias stands for.
    fn problems(&self, text: &str) -> Result<Vec<Self::Problem>, Refusal>;

    /// A problem field by field, as a suite's table writes it.
    fn problem_of(&self, fields: &toml::Table) -> Result<Self::Problem, Refusal>;

    fn suites(&self) -> &'static [SuiteText];

    /// The names `check` goes through when it is asked for nothing in particular: the problems people measure, and
    /// the shapes where kernels have their edges.
    fn usual(&self) -> Vec<String>;
    fn edges(&self) -> Vec<String>;

    /// A problem from a random draw, of the kind that finds faults; the same for the same draw.
    fn fuzzed(&self, draw: u64) -> Self::Problem;

    /// The candidate of a preset (or of the defaults) for a problem, with knobs overridden as `(name, text)`. What
    /// the family does not support is refused here, in words about the problem.
    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &Self::Problem,
    ) -> Result<Candidate, Refusal>;

    /// The run-time sizes of a problem, for the family's launch rule.
    fn sizes(&self, problem: &Self::Problem) -> Sizes;

    fn work(&self, problem: &Self::Problem) -> Work;

    /// Which problems a setting that is best for this one may be good for.
    fn likeness(&self, problem: &Self::Problem) -> Likeness;

    /// The problem made smaller until it takes about `flops` operations at most, in dimensions that repeat the same
    /// work (batch and heads first): what is left must still have every edge of the original.
    fn cut(&self, problem: &Self::Problem, flops: f64) -> Self::Problem;

    /// The classes of inputs, the ordinary one first.
    fn classes(&self) -> Vec<&'static str>;

    /// The classes whose numbers are the hardest to get right: every kernel gets one of them at full size.
    fn hard_classes(&self) -> Vec<&'static str>;

    /// The inputs of a problem: the same for the same class and seed everywhere.
    fn inputs(&self, problem: &Self::Problem, class: &str, seed: u64) -> Result<Self::Inputs, Refusal>;

    /// The inputs kernels are timed on: drawn as [`Op::inputs`] draws them, laid out as peers expect them.
    fn timed_inputs(&self, problem: &Self::Problem, class: &str, seed: u64) -> Result<Self::Inputs, Refusal>;

    /// Inputs of a class in which every number has the opposite sign of that in `inputs`, laid out in another way where
    /// there is one. A kernel that is right only if some element is positive is then wrong on one of the two.
    fn opposite(
        &self,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        class: &str,
        seed: u64,
    ) -> Result<Self::Inputs, Refusal>;

    /// The element type of the matrix products a problem consists of, as a ceiling is measured for it: `fp16`.
    fn matrix_type(&self, problem: &Self::Problem) -> &'static str;

    /// What others have for the op; `None`: nothing we know of.
    fn peers(&self) -> Option<Peers>;

    fn peer_problem(&self, problem: &Self::Problem, inputs: &Self::Inputs) -> PeerProblem;

    /// Holds a peer's output against the right answer. A peer that is wrong is no baseline.
    fn judge_peer(&self, inputs: &Self::Inputs, reference: &Self::Reference, output: Vec<u8>) -> Judgement;

    /// The names of the inputs that can be drawn anew one by one.
    fn input_names(&self) -> &'static [&'static str];

    /// The inputs with one of them drawn from another seed.
    fn redraw(&self, problem: &Self::Problem, inputs: &Self::Inputs, which: &str, seed: u64) -> Self::Inputs;

    /// What a kernel of the family needs in memory for these inputs.
    fn arrange(&self, family: &Family, problem: &Self::Problem, inputs: &Self::Inputs) -> Arrangement;

    /// The kernel's parameters for an arrangement at these addresses.
    fn parameters(
        &self,
        problem: &Self::Problem,
        inputs: &Self::Inputs,
        addresses: &Addresses,
    ) -> Vec<Vec<u8>>;

    /// The right answer, by the slow and obvious way. Of a large problem it is the answer for some parts only, which are
    /// drawn from `sample`.
    fn reference(&self, problem: &Self::Problem, inputs: &Self::Inputs, sample: u64) -> Self::Reference;

    /// The tolerance that a kernel gets beyond the op's own on a problem, in words for every verdict. It needs both: the
    /// family asks for it, and the kernel's instructions show why. Otherwise the op's own tolerance holds.
    fn extra_tolerance(&self, family: &Family, problem: &Self::Problem, ptx: &str) -> Option<String>;

    /// Compares a kernel's outputs, in the arrangement's order, with the right answer. `extra`: the kernel has
    /// [`Op::extra_tolerance`].
    fn judge(
        &self,
        extra: bool,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: &[Vec<u8>],
    ) -> Judgement;

    /// Whether the answer ignores an input: `before` and `after` are right and given answers with nothing but that
    /// input redrawn between them.
    fn independence(
        &self,
        extra: bool,
        which: &str,
        before: (&Self::Reference, &[Vec<u8>]),
        after: (&Self::Reference, &[Vec<u8>]),
    ) -> Option<Complaint>;

    /// Where the answer is wrong; `None` where it is not.
    fn picture(
        &self,
        candidate: &Candidate,
        extra: bool,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: &[Vec<u8>],
    ) -> Option<Picture>;
}
