//! The problems of an op, and how its families run them.

use std::fmt;

use family::{Candidate, Family, Sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::Refusal;

/// A built-in suite, as the text of its TOML file.
#[derive(Clone, Debug)]
pub struct SuiteText {
    /// The suite's name.
    pub name: String,
    /// The contents of the TOML file.
    pub text: String,
}

/// The minimum work of a problem, whatever the kernel.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Work {
    /// Floating-point operations; a multiplication and an addition count as two.
    pub flops: f64,
    /// Bytes that must cross the memory bus.
    pub bytes: u64,
}

/// Decides whether problems can share a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Similarity {
    /// Problems of one kind differ only in size. The best setting for one kind says little about another kind.
    pub kind: String,
    /// Kinds whose settings are a sensible default where this kind has none, the best first.
    pub related: Vec<String>,
    /// What the time depends on: problems of another regime need other settings, whatever their kind and size. Regimes
    /// with nearer numbers are more alike.
    pub regime: u32,
    /// The amount of work, on any scale: sizes are compared by their ratio.
    pub size: f64,
}

/// The problems of an op.
pub trait OpProblems: Sync {
    /// A size and type of the inputs.
    type Problem: Clone + fmt::Debug + fmt::Display + PartialEq + Send + Sync + 'static;

    /// The folder of its families under `kernels/`.
    fn name(&self) -> &str;

    /// The problems that a name or an alias stands for.
    fn problems(&self, text: &str) -> Result<Vec<Self::Problem>, Refusal>;

    /// The names that are short for a problem.
    fn aliases(&self) -> Vec<String>;

    /// The problem with these fields, as written in a suite's table.
    fn problem_from_fields(&self, fields: &toml::Table) -> Result<Self::Problem, Refusal>;

    /// A problem in words: `2 sequences of 512 tokens, 8 heads of 64`.
    fn in_words(&self, problem: &Self::Problem) -> String;

    /// How to read and write the names of problems.
    fn name_help(&self) -> String;

    /// The built-in suites.
    fn suites(&self) -> Vec<SuiteText>;

    /// The problem names that `check` uses by default: problems that people measure.
    fn default_problems(&self) -> Vec<String>;
    /// A problem with incomplete tiles that the virtual GPU runs in about a second.
    fn small_problem(&self) -> String;
    /// More problem names that `check` uses by default: shapes at which kernels have edge cases.
    fn edge_problems(&self) -> Vec<String>;

    /// More problem names, on which `check` uses every hard class by default: large enough for these classes to show
    /// their faults, small enough for the virtual GPU.
    fn class_problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// A random problem of the kind that finds faults. The same draw gives the same problem.
    fn fuzzed(&self, draw: u64) -> Self::Problem;

    /// Reduces a problem to at most about `flops` operations, in dimensions that repeat the same work (batch and heads
    /// first). The result must keep every edge case of the original.
    fn cut(&self, problem: &Self::Problem, flops: f64) -> Self::Problem;

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

    /// The element type of the matrix products of a problem, for which a ceiling is measured: `fp16`. `None` if the op
    /// has no matrix products.
    fn matrix_type(&self, problem: &Self::Problem) -> Option<&str>;

    /// Describes which problems can share a tuned setting with this one.
    fn similarity(&self, problem: &Self::Problem) -> Similarity;

    /// Families in the order in which to try them for a problem without a tuned setting. Other families come last.
    fn preferred_families(&self) -> &[&str] {
        &[]
    }

    /// The family that a search uses if none is named. `None`: the first that is not plain.
    fn default_family(&self) -> Option<&str> {
        None
    }
}
