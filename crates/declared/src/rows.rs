//! Computes the reference of a problem, or of some rows of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use launch::Dtype;
use op::Refusal;
use random::Random;

use crate::answer_cache::CachedAnswer;
use crate::declaration::{Argument, Declaration, Function, Kind, ReferenceSource};
use crate::declared_op::DeclaredOp;
use crate::file_array::{Numbers, wide_integers};
use crate::inputs::{DeclaredInputs, InputTensor};
use crate::problem::DeclaredProblem;
use crate::python::{Array, Call, Errors};

/// Most operations and elements of one reference: about a second of numpy, or of the virtual GPU.
const MOST_FLOPS: f64 = 4e9;
const MOST_VIRTUAL_FLOPS: f64 = 5e7;
const MOST_ELEMENTS: f64 = 8e6;
/// Fewest rows that are compared.
const FEWEST_ROWS: usize = 16;

/// The precision in which a Python reference computes: numpy keeps that of its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Precision {
    Double,
    /// In fp32, with the seed of random roundings.
    Single {
        roundings: u64,
    },
    /// In fp64. Every result of an operation of the reference that is inexact in fp32 moves at random by at most a
    /// share of itself. A reference whose operations cannot be observed is refused.
    Moved {
        seed: u64,
        share: f64,
    },
}

/// The right numbers of all outputs.
pub(crate) struct ReferenceValues {
    pub outputs: Vec<OutputValues>,
}

pub(crate) struct OutputValues {
    pub numbers: Vec<f64>,
    /// The bits of 64-bit integers, of which fp64 does not have all; empty for other types.
    pub exact: Vec<u64>,
    /// The rows that the numbers belong to; `None` for all.
    pub rows: Option<Vec<usize>>,
}

impl DeclaredOp {
    /// The right numbers. Of a large problem whose rows are independent, those of some rows, which `sample` selects.
    pub(crate) fn reference_values(
        &self,
        problem: &DeclaredProblem,
        inputs: &DeclaredInputs,
        sample: u64,
        precision: Precision,
    ) -> Result<ReferenceValues, Refusal> {
        let Some(rows) = self.sampled_rows(problem, sample) else {
            let outputs = self.evaluate(problem, &inputs.tensors, precision)?;
            let outputs =
                outputs.into_iter().map(|(numbers, exact)| OutputValues { numbers, exact, rows: None });
            return Ok(ReferenceValues { outputs: outputs.collect() });
        };
        let names = &self.declaration.independent;
        // The rows lie along the last of the sizes; the others become 1.
        let mut part = problem.clone();
        for (size, value) in part.sizes.iter_mut().filter(|(size, _)| names.contains(size)) {
            *value = if Some(&*size) == names.last() { rows.len() as i64 } else { 1 };
        }
        let read = self.declaration.inputs();
        let tensors: Vec<InputTensor> = read
            .zip(&inputs.tensors)
            .map(
                |(argument, tensor)| {
                    if has_rows(argument, names) { tensor.rows(&rows, names.len()) } else { tensor.clone() }
                },
            )
            .collect();
        let outputs = self.evaluate(&part, &tensors, precision)?;
        let outputs = outputs.into_iter().map(|(numbers, exact)| OutputValues {
            numbers,
            exact,
            rows: Some(rows.clone()),
        });
        Ok(ReferenceValues { outputs: outputs.collect() })
    }

    /// The rows to compare; `None` if all are, or if the rows are not independent.
    fn sampled_rows(&self, problem: &DeclaredProblem, sample: u64) -> Option<Vec<usize>> {
        let declaration = &self.declaration;
        let names = &declaration.independent;
        let count = declaration.rows(problem);
        let cannot_be_cut = |input: &Argument| !has_rows(input, names) && depends_on(input, names);
        if names.is_empty()
            || !declaration.outputs().all(|output| has_rows(output, names))
            || declaration.inputs().any(cannot_be_cut)
        {
            return None;
        }
        let elements = |argument: &Argument| {
            let shape = declaration.shape(argument, problem).unwrap_or_default();
            shape.iter().map(|&extent| extent as f64).product::<f64>()
        };
        let by_row = declaration.arguments.iter().filter(|argument| has_rows(argument, names));
        let elements: f64 = by_row.map(elements).sum();
        let most_flops = match declaration.reference {
            ReferenceSource::Python(_) => MOST_FLOPS,
            ReferenceSource::Family(_) => MOST_VIRTUAL_FLOPS,
            ReferenceSource::Files => return None,
        };
        let share =
            (most_flops / declaration.work(problem).flops.max(1.0)).min(MOST_ELEMENTS / elements.max(1.0));
        let wanted = ((share * count as f64) as usize).max(FEWEST_ROWS);
        if wanted >= count {
            return None;
        }
        // The first and the last row are always compared.
        let mut rows = BTreeSet::from([0, count - 1]);
        let mut random = Random::new(sample);
        while rows.len() < wanted {
            rows.insert(random.integer(0, count as i64) as usize);
        }
        Some(rows.into_iter().collect())
    }

    /// Calls the reference on a whole problem.
    fn evaluate(
        &self,
        problem: &DeclaredProblem,
        tensors: &[InputTensor],
        precision: Precision,
    ) -> Result<Vec<Numbers>, Refusal> {
        match &self.declaration.reference {
            ReferenceSource::Files => self.declaration.expected_values(problem),
            ReferenceSource::Python(function) => self.call_python(function, problem, tensors, precision),
            ReferenceSource::Family(family) => {
                let class = op::Class::Normal;
                let inputs = DeclaredInputs { problem: problem.clone(), class, tensors: tensors.to_vec() };
                let outputs = self.run_family(family, problem, &inputs)?;
                let dtypes = self.declaration.outputs().map(|it| self.declaration.dtype(it.dtype, problem));
                let numbers =
                    |(dtype, bytes): (Dtype, Vec<u8>)| (dtype.floats(&bytes), wide_integers(dtype, &bytes));
                Ok(dtypes.zip(outputs).map(numbers).collect())
            }
        }
    }

    fn call_python(
        &self,
        function: &Function,
        problem: &DeclaredProblem,
        tensors: &[InputTensor],
        precision: Precision,
    ) -> Result<Vec<Numbers>, Refusal> {
        let declaration = &self.declaration;
        let script = self.files.scripts.iter().find(|(name, _)| *name == function.file);
        let script = script.map_or("", |(_, text)| text.as_str());
        let folder = self.files.folder.as_ref().map(|folder| folder.display().to_string());
        let file = self.script_path(&function.file);
        let contents: Vec<Vec<u8>> = tensors.iter().map(|tensor| tensor.for_numpy(precision)).collect();
        let arguments = tensors.iter().map(|tensor| Array {
            name: &tensor.name,
            dtype: match (tensor.dtype.is_float(), precision) {
                (true, Precision::Single { .. }) => "<f4",
                (true, Precision::Double | Precision::Moved { .. }) => "<f8",
                (false, _) => "<i8",
            },
            shape: tensor.dims.clone(),
        });
        let mut outputs = Vec::new();
        for output in declaration.outputs() {
            outputs.push(Array {
                name: &output.name,
                dtype: match declaration.dtype(output.dtype, problem) {
                    Dtype::I64 => "<i8",
                    Dtype::U64 => "<u8",
                    _ => "<f8",
                },
                shape: declaration.shape(output, problem)?,
            });
        }
        let call = Call {
            script,
            file: &file,
            folder: folder.as_deref(),
            function: &function.name,
            arguments: arguments.collect(),
            values: declaration.json_values(problem),
            outputs,
            mib: declaration.limits.mib,
            errors: match precision {
                Precision::Double => None,
                Precision::Single { roundings: seed } => Some(Errors { seed, share: None }),
                Precision::Moved { seed, share } => Some(Errors { seed, share: Some(share) }),
            },
        };
        let attachments: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        let cached = self.cached_answer(&call, &attachments);
        let answers = if let Some(answers) = cached.as_ref().and_then(CachedAnswer::load) {
            answers
        } else {
            let start = Instant::now();
            let answers = self.python.call(&call, &attachments, declaration.limits.seconds)?;
            if let Some(cached) = cached {
                cached.store(&answers, start.elapsed());
            }
            answers
        };
        // After the numbers of all outputs come the bits of those with 64-bit integers.
        let mut answers = answers.iter();
        let numbers: Vec<Vec<f64>> =
            answers.by_ref().take(call.outputs.len()).map(|bytes| Dtype::F64.floats(bytes)).collect();
        let exact = call.outputs.iter().map(|output| match output.dtype {
            "<f8" => Vec::new(),
            _ => answers.next().map_or_else(Vec::new, |bytes| wide_integers(Dtype::U64, bytes)),
        });
        Ok(numbers.into_iter().zip(exact).collect())
    }

    /// The place of a call's answer in the cache. It depends on the call, on all scripts of the op and on the inputs.
    /// `None` if the op is a single file and its folder has scripts that the file does not name: the reference may
    /// import them.
    fn cached_answer(&self, call: &Call<'_>, tensors: &[&[u8]]) -> Option<CachedAnswer> {
        if !self.files.lines.is_empty() && self.has_other_scripts() {
            return None;
        }
        let call = serde_json::to_vec(call).ok()?;
        let scripts = self.files.scripts.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
        let parts = std::iter::once(call.as_slice()).chain(scripts).chain(tensors.iter().copied());
        Some(CachedAnswer::new(&files::cache_dir().join("answers"), parts))
    }

    fn has_other_scripts(&self) -> bool {
        let folder = self.files.folder.as_deref().filter(|folder| !folder.as_os_str().is_empty());
        let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut scripts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "py"));
        let is_named = |path: &PathBuf| {
            self.files
                .scripts
                .iter()
                .any(|(known, _)| path.file_name().is_some_and(|name| name == known.as_str()))
        };
        scripts.any(|path| !is_named(&path))
    }
}

impl Declaration {
    /// The number of independent rows.
    pub fn rows(&self, problem: &DeclaredProblem) -> usize {
        self.independent.iter().filter_map(|name| problem.size(name)).product::<i64>() as usize
    }

    /// Whether an argument consists of independent rows.
    pub fn has_independent_rows(&self, argument: &Argument) -> bool {
        !self.independent.is_empty() && has_rows(argument, &self.independent)
    }
}

/// Whether the first extents of an argument are these sizes.
fn has_rows(argument: &Argument, sizes: &[String]) -> bool {
    let extents = argument.shape.iter().take(sizes.len());
    argument.kind != Kind::Scalar && extents.map(|extent| extent.text().trim()).eq(sizes)
}

/// Whether an extent of an argument depends on one of these sizes.
fn depends_on(argument: &Argument, sizes: &[String]) -> bool {
    argument.shape.iter().any(|extent| extent.variables().iter().any(|name| sizes.contains(name)))
}

impl InputTensor {
    /// The tensor with only these rows, which are numbered along its first `depth` extents.
    fn rows(&self, rows: &[usize], depth: usize) -> Self {
        let count: usize = self.dims[..depth].iter().product();
        let row = self.bytes.len() / count.max(1);
        let mut bytes = Vec::with_capacity(rows.len() * row);
        for &index in rows {
            bytes.extend_from_slice(&self.bytes[index * row..(index + 1) * row]);
        }
        let mut dims = self.dims.clone();
        dims[..depth].fill(1);
        dims[depth - 1] = rows.len();
        InputTensor { name: self.name.clone(), dtype: self.dtype, dims, bytes: Arc::new(bytes) }
    }

    /// The numbers in this precision, or as int64 if they are integers.
    fn for_numpy(&self, precision: Precision) -> Vec<u8> {
        if self.dtype.is_float() {
            let numbers = self.dtype.floats(&self.bytes);
            return match precision {
                Precision::Single { .. } => {
                    numbers.iter().flat_map(|&number| (number as f32).to_le_bytes()).collect()
                }
                Precision::Double | Precision::Moved { .. } => {
                    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
                }
            };
        }
        let width = self.dtype.bytes();
        let is_signed = matches!(self.dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
        let widen = |element: &[u8]| {
            let negative = is_signed && element[width - 1] & 0x80 != 0;
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            wide[..width].copy_from_slice(element);
            wide
        };
        self.bytes.chunks_exact(width).flat_map(widen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_along_all_independent_sizes() {
        let bytes = (0..2 * 3 * 4).collect();
        let tensor = InputTensor {
            name: "x".to_owned(),
            dtype: Dtype::U8,
            dims: vec![2, 3, 4],
            bytes: Arc::new(bytes),
        };
        let part = tensor.rows(&[1, 5], 2);
        assert_eq!((part.dims, &**part.bytes), (vec![1, 2, 4], &[4, 5, 6, 7, 20, 21, 22, 23][..]));
        let part = tensor.rows(&[1], 1);
        assert_eq!((part.dims, part.bytes[0]), (vec![1, 3, 4], 12));
    }
}
