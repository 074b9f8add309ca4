//! A case: a kernel, its operands, and how its results are judged.

use serde::Serialize;

use crate::kernel::{Column, Width, per_element, simple};
use crate::random::{Kind, Rng, operands};

/// Number of random operands of a case, in addition to the combinations of edge values. Debug builds use fewer.
pub const RANDOM: usize = if cfg!(debug_assertions) { 1024 } else { 8192 };

pub struct Case {
    pub name: String,
    pub ptx: String,
    pub inputs: Vec<Column>,
    /// Width and length of each result.
    pub outputs: Vec<(Width, usize)>,
    /// Number of threads, and the value of the `count` parameter.
    pub threads: usize,
    pub count: usize,
    pub judge: Box<dyn Judge>,
}

/// Judges the results of a case.
pub trait Judge {
    /// Compares the virtual GPU's results with an independent model; `None` if there is no model.
    fn against_model(&self, inputs: &[Column], ours: &[Column]) -> Option<Verdict>;

    /// Compares the virtual GPU's results with those of a CUDA GPU.
    fn against_hardware(&self, inputs: &[Column], ours: &[Column], theirs: &[Column]) -> Verdict;
}

/// The result of one comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verdict {
    pub compared: u64,
    /// Results with identical bits.
    pub equal: u64,
    /// Results that are wrong.
    pub wrong: u64,
    /// The first few wrong results, as text.
    pub examples: Vec<String>,
    /// Largest error in units of the documented bound, if there is one: the virtual GPU's and the hardware's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub our_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub their_error: Option<f64>,
    /// Results without a bound, compared for information only.
    #[serde(skip_serializing_if = "is_zero")]
    pub unbounded: u64,
    /// Differences that are allowed but of interest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Counts for parts of the operands: name, compared, equal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<(String, u64, u64)>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires a reference.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Verdict {
    const EXAMPLES: usize = 6;

    pub fn wrong(&mut self, example: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.examples.len() < Self::EXAMPLES {
            self.examples.push(example());
        }
    }

    pub fn passed(&self) -> bool {
        self.wrong == 0 && self.compared > 0
    }
}

/// A model's results for element `i`; `None` where the model does not define them.
pub type Model = Box<dyn Fn(&[Column], usize) -> Option<Vec<u64>>>;

/// Requires identical bits, including NaN payloads, with one exception: for several f64 NaN operands the manual does
/// not define which payload survives, and assemblers may reorder operands. There any NaN is right.
pub struct Exact {
    pub model: Option<Model>,
    /// Whether operands and results are f64.
    pub is_f64: bool,
}

fn is_nan_f64(column: &Column, index: usize) -> bool {
    column.width == Width::B64 && f64::from_bits(column.values[index]).is_nan()
}

fn hex(width: Width, value: u64) -> String {
    format!("{value:0digits$x}", digits = width.bytes() * 2)
}

fn element(columns: &[Column], index: usize) -> String {
    let all: Vec<String> = columns.iter().map(|column| hex(column.width, column.values[index])).collect();
    all.join(" ")
}

impl Judge for Exact {
    fn against_model(&self, inputs: &[Column], ours: &[Column]) -> Option<Verdict> {
        let model = self.model.as_ref()?;
        let mut verdict = Verdict::default();
        for index in 0..ours[0].values.len() {
            let Some(wanted) = model(inputs, index) else { continue };
            verdict.compared += 1;
            let same = wanted
                .iter()
                .zip(ours)
                .all(|(wanted, ours)| wanted & ours.width.mask() == ours.values[index]);
            if same {
                verdict.equal += 1;
            } else {
                verdict.wrong(|| {
                    let wanted: Vec<String> =
                        wanted.iter().zip(ours).map(|(w, o)| hex(o.width, w & o.width.mask())).collect();
                    format!(
                        "of {}: virtual {}, model {}",
                        element(inputs, index),
                        element(ours, index),
                        wanted.join(" ")
                    )
                });
            }
        }
        // A model that defines no result counts as no model.
        (verdict.compared > 0).then_some(verdict)
    }

    fn against_hardware(&self, inputs: &[Column], ours: &[Column], theirs: &[Column]) -> Verdict {
        let mut verdict = Verdict::default();
        for index in 0..ours[0].values.len() {
            verdict.compared += 1;
            if ours.iter().zip(theirs).all(|(ours, theirs)| ours.values[index] == theirs.values[index]) {
                verdict.equal += 1;
            } else if self.is_f64
                && inputs.iter().filter(|column| is_nan_f64(column, index)).count() > 1
                && is_nan_f64(&ours[0], index)
                && is_nan_f64(&theirs[0], index)
            {
                verdict.unbounded += 1;
            } else {
                verdict.wrong(|| {
                    format!(
                        "of {}: virtual {}, cuda {}",
                        element(inputs, index),
                        element(ours, index),
                        element(theirs, index)
                    )
                });
            }
        }
        verdict
    }
}

/// A case of one instruction with one result.
pub fn exact(
    instruction: &str,
    result: Width,
    sources: &[(Kind, Width)],
    model: Option<Box<dyn Fn(&[u64]) -> Option<u64>>>,
) -> Case {
    let columns = operands(&mut Rng::for_name(instruction), sources, RANDOM);
    exact_on(instruction, &simple(instruction, sources.len()), &[result], columns, model.map(per_value))
}

/// Converts a model of one element's operands into a model of columns.
pub fn per_value(model: Box<dyn Fn(&[u64]) -> Option<u64>>) -> Model {
    Box::new(move |columns, index| {
        let operands: Vec<u64> = columns.iter().map(|column| column.values[index]).collect();
        model(&operands).map(|value| vec![value])
    })
}

/// A case with its own kernel body, on given operands.
pub fn exact_on(
    name: &str,
    body: &str,
    results: &[Width],
    inputs: Vec<Column>,
    model: Option<Model>,
) -> Case {
    let widths: Vec<Width> = inputs.iter().map(|column| column.width).collect();
    let count = inputs[0].values.len();
    Case {
        name: name.to_owned(),
        ptx: per_element(body, &widths, results),
        inputs,
        outputs: results.iter().map(|&width| (width, count)).collect(),
        threads: count,
        count,
        judge: Box::new(Exact { model, is_f64: name.ends_with(".f64") }),
    }
}
