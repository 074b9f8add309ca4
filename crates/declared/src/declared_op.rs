//! The type of a declared op: its files, its declaration, and the Python process of its reference.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use family::{Family, ManifestError, ManifestErrors, OpFiles, Value};
use launch::Dtype;
use op::{Refusal, VacuousPart};
use serde_json::{Map, json};

use crate::arrays::Arrays;
use crate::declaration::{Declaration, ElementType, GivenTolerance, Kind, ReferenceSource};
use crate::file_array::FileArray;
use crate::inputs::DeclaredInputs;
use crate::judge::{OutputConditioning, OutputReference, judge};
use crate::problem::DeclaredProblem;
use crate::python::Python;
use crate::read::{self, Beside};

/// Most tile sizes from which edge cases are derived.
const MOST_TILES: usize = 3;

/// An op that is declared by an `op.toml`.
#[derive(Debug)]
pub struct DeclaredOp {
    pub(crate) files: OpFiles,
    pub(crate) declaration: Declaration,
    pub(crate) python: Python,
    /// Sizes of tiles of the op's families.
    pub(crate) tiles: Vec<i64>,
    family_reference: Option<FamilyReference>,
    /// The code of the family that computes the reference.
    reference_code: Option<String>,
}

/// Runs a family of the op and returns its outputs, for ops whose reference is a family.
pub struct FamilyReference(Box<RunFamily>);

type RunFamily = dyn Fn(&DeclaredOp, &str, &DeclaredProblem, &DeclaredInputs) -> Result<Vec<Vec<u8>>, Refusal>
    + Send
    + Sync;

impl std::fmt::Debug for FamilyReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FamilyReference")
    }
}

/// The reference of all outputs.
#[derive(Clone, Debug)]
pub struct DeclaredReference {
    pub(crate) outputs: Vec<OutputReference>,
    /// The seed of the compared rows.
    pub(crate) sample: u64,
    /// [`DeclaredOp::conditioning`], which is computed when an answer needs it.
    pub(crate) conditioning: Arc<OnceLock<Vec<OutputConditioning>>>,
}

impl DeclaredReference {
    /// For every output, whether its elements differ from those of another reference so that no answer can be right for
    /// both: by more than the tolerances of both together, including what was allowed in addition when their answers
    /// were judged.
    fn differences(&self, other: &Self) -> Vec<Vec<bool>> {
        let differences = |(index, (one, second)): (usize, (&OutputReference, &OutputReference))| {
            let conditionings = [self, other].map(|it| it.conditioning.get().and_then(|all| all.get(index)));
            let more = |position: usize| -> f64 {
                let allowed = conditionings.iter().flatten().filter_map(|it| it.allowed.get(position));
                allowed.sum()
            };
            let differ = |(position, (a, b)): (usize, (&f64, &f64))| {
                let limit = 2.0 * (one.tolerance.atol + one.tolerance.rtol * a.abs()) + more(position);
                let sides = |side: usize, right: f64| {
                    let others = conditionings[side].and_then(|it| it.other_sides.get(&position));
                    std::iter::once(right).chain(others.into_iter().flatten().copied())
                };
                one.rows == second.rows && sides(0, *a).all(|a| sides(1, *b).all(|b| (a - b).abs() > limit))
            };
            one.values.iter().zip(&second.values).enumerate().map(differ).collect()
        };
        self.outputs.iter().zip(&other.outputs).enumerate().map(differences).collect()
    }

    /// Whether no answer can be right for both.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        self.differences(other).into_iter().flatten().any(|differs| differs)
    }
}

/// Which elements of a reference other inputs change by more than the tolerance.
pub(crate) struct Dependence {
    outputs: Vec<OutputDependence>,
}

struct OutputDependence {
    /// For every compared element, whether it differed for some inputs.
    changed: Vec<bool>,
    /// Whether zeros have been a right answer for all inputs.
    accepts_zeros: bool,
}

impl Dependence {
    pub(crate) fn new(first: &DeclaredReference) -> Self {
        let output = |output: &OutputReference| OutputDependence {
            changed: vec![false; output.values.len()],
            accepts_zeros: accepts_zeros(output),
        };
        Dependence { outputs: first.outputs.iter().map(output).collect() }
    }

    /// Compares the first reference with that of other inputs.
    pub(crate) fn add(&mut self, first: &DeclaredReference, other: &DeclaredReference) {
        let differences = first.differences(other);
        for ((known, differs), other) in self.outputs.iter_mut().zip(differences).zip(&other.outputs) {
            known.changed.iter_mut().zip(differs).for_each(|(changed, differs)| *changed |= differs);
            known.accepts_zeros = known.accepts_zeros && accepts_zeros(other);
        }
    }

    /// The part of the answer that is right for all inputs so far. Of an output that is more than half of its elements.
    pub(crate) fn vacuous_part(&self, first: &DeclaredReference) -> Option<VacuousPart> {
        let inert = |known: &OutputDependence| {
            if known.accepts_zeros {
                known.changed.len()
            } else {
                known.changed.iter().filter(|changed| !**changed).count()
            }
        };
        let counts: Vec<(usize, usize)> =
            self.outputs.iter().map(|known| (inert(known), known.changed.len())).collect();
        if counts.iter().all(|(inert, all)| inert == all) {
            return Some(VacuousPart::All);
        }
        let mostly = first.outputs.iter().zip(counts).filter(|(_, (inert, all))| 2 * inert > *all);
        let mostly: Vec<_> = mostly.map(|(output, (inert, all))| (output.name.clone(), inert, all)).collect();
        (!mostly.is_empty()).then_some(VacuousPart::Elements(mostly))
    }
}

/// Whether zeros are a right answer for an output.
fn accepts_zeros(output: &OutputReference) -> bool {
    let zeros = vec![0; output.dims.iter().product::<usize>() * output.dtype.bytes()];
    judge(std::slice::from_ref(output), &[zeros]).complaints.is_empty()
}

impl DeclaredOp {
    /// Reads an op. `families`: the op's families, whose tile sizes are edge cases.
    pub fn new<'f>(
        files: &OpFiles,
        families: impl IntoIterator<Item = &'f Family>,
    ) -> Result<Self, ManifestErrors> {
        let scripts: Vec<&str> = files.scripts.iter().map(|(name, _)| name.as_str()).collect();
        Self::read(files, families, Some(&scripts))
    }

    /// Reads an op for a process that runs kernels but computes no reference. It needs no Python files.
    pub fn without_scripts(files: &OpFiles) -> Result<Self, ManifestErrors> {
        Self::read(files, [], None)
    }

    fn read<'f>(
        files: &OpFiles,
        families: impl IntoIterator<Item = &'f Family>,
        scripts: Option<&[&str]>,
    ) -> Result<Self, ManifestErrors> {
        let place = |mut error: ManifestError| {
            if let Some(&line) = files.lines.get(error.line - 1) {
                (error.line, error.column) = (line, 1);
            }
            error
        };
        let beside = Beside {
            scripts,
            folder: files.folder.as_deref(),
            has_expected: !files.arrays.expected.is_empty(),
        };
        let declaration = read::read(&files.label, &files.manifest, beside)
            .map_err(|errors| ManifestErrors(errors.into_iter().map(place).collect()))?;
        let families: Vec<&Family> = families.into_iter().collect();
        let reference_code = match &declaration.reference {
            ReferenceSource::Family(name) => families.iter().find(|family| family.name == *name),
            ReferenceSource::Python(_) | ReferenceSource::Files => None,
        };
        let reference_code = reference_code.map(|family| family.code());
        let mut tiles: Vec<i64> = families.into_iter().flat_map(Family::tile_sizes).collect();
        tiles.sort_unstable();
        tiles.dedup();
        // The smallest, the largest, and one between them.
        if tiles.len() > MOST_TILES {
            tiles = vec![tiles[0], tiles[tiles.len() / 2], tiles[tiles.len() - 1]];
        }
        let python = Python::new(files.folder.as_deref());
        let files = files.clone();
        Ok(DeclaredOp { files, declaration, python, tiles, family_reference: None, reference_code })
    }

    /// Reads the arrays that the command line names, and checks that all arrays fit a problem of the op. A process that
    /// computes no reference has no expected outputs.
    pub fn read_arrays(&mut self) -> Result<(), Refusal> {
        let family::NamedArrays { inputs, expected, rtol, atol } = &self.files.arrays;
        let read = |flag: &str, named: &[(String, PathBuf)]| {
            let one = |(name, path): &(String, PathBuf)| match FileArray::read(path) {
                Ok(array) => Ok((name.clone(), array)),
                Err(message) => Err(Refusal::new(format!("{flag} {name}: {message}"))),
            };
            named.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        let arrays = Arrays { inputs: read("--input", inputs)?, expected: read("--expect", expected)? };
        for (output, _) in expected {
            let tolerance = self.declaration.tolerances.entry(output.clone()).or_default();
            *tolerance = GivenTolerance {
                rtol: rtol.or(tolerance.rtol),
                atol: atol.or(tolerance.atol),
                elements_only: rtol.is_some() || atol.is_some(),
                ..*tolerance
            };
        }
        self.declaration.set_arrays(arrays)
    }

    /// Refuses files that are no complete reference, or that fit no problem.
    pub fn check_arrays(&self) -> Result<(), Refusal> {
        self.declaration.check_arrays()
    }

    /// The problem that the files of the arguments fit; `None` if there are none.
    pub(crate) fn problem_of_files(&self) -> Option<DeclaredProblem> {
        // `check_arrays` has refused files that fit no problem.
        self.declaration.has_files().then(|| self.declaration.problem_of_files().ok()).flatten()
    }

    /// The path of a Python file of the op, for messages.
    pub(crate) fn script_path(&self, file: &str) -> String {
        match &self.files.folder {
            Some(folder) => folder.join(file).display().to_string(),
            None => self.files.label.replace(family::OP_FILE, file),
        }
    }

    /// The sizes of the op, as (name, description).
    pub fn size_descriptions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.declaration.sizes.iter().map(|size| (size.name.as_str(), size.about.as_str()))
    }

    /// Sets how a family is run, for an op whose reference is a family.
    pub fn set_family_reference(
        &mut self,
        run: impl Fn(&DeclaredOp, &str, &DeclaredProblem, &DeclaredInputs) -> Result<Vec<Vec<u8>>, Refusal>
        + Send
        + Sync
        + 'static,
    ) {
        self.family_reference = Some(FamilyReference(Box::new(run)));
    }

    /// Refuses the family that computes the reference, and copies of it.
    pub(crate) fn refuse_reference(&self, family: &Family) -> Result<(), Refusal> {
        let ReferenceSource::Family(reference) = &self.declaration.reference else { return Ok(()) };
        let is_copy = self.reference_code.as_ref().is_some_and(|code| *code == family.code());
        let what = if family.name == *reference {
            format!("{} computes the reference of the op", family.full_name())
        } else if is_copy {
            format!("{} has the same source as {reference}, which computes the reference", family.full_name())
        } else {
            return Ok(());
        };
        let hint =
            "name another family, or a Python function in op.toml: reference = \"reference.py:function\"";
        Err(Refusal::new(format!("{what}: its answers would be compared with themselves"))
            .hint(Some(hint.to_owned())))
    }

    pub(crate) fn run_family(
        &self,
        name: &str,
        problem: &DeclaredProblem,
        inputs: &DeclaredInputs,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        match &self.family_reference {
            Some(FamilyReference(run)) => run(self, name, problem, inputs),
            None => Err(Refusal::new(format!("the reference is the family {name}, which cannot run here"))),
        }
    }

    /// Refuses a family whose manifest does not fit the op.
    pub(crate) fn check_family(&self, family: &Family) -> Result<(), Refusal> {
        let declaration = &self.declaration;
        let wrong = |message: String| Refusal::new(format!("{}: {message}", family.full_name()));
        let mut passed: Vec<&str> = Vec::new();
        for parameter in family.parameters().flatten() {
            let name = parameter.name.as_str();
            let is_size = declaration.sizes.iter().any(|size| size.name == name);
            let is_argument = declaration.arguments.iter().any(|argument| argument.name == name);
            let is_scratch = family.scratch_names().any(|known| known == name);
            if !is_size && !is_argument && !is_scratch && name != WORKSPACE {
                let known = declaration.arguments.iter().map(|argument| argument.name.as_str());
                let known: Vec<&str> = known
                    .chain(declaration.sizes.iter().map(|size| size.name.as_str()))
                    .chain(family.scratch_names())
                    .collect();
                let near = family::nearest(name, known.iter().copied());
                let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                return Err(wrong(format!(
                    "the parameter `{name}` is neither an argument nor a size of {}, nor a buffer of [[workspace]]",
                    self.files.name
                ))
                .hint(Some(format!("{near}arguments and sizes: {}; or `workspace`", known.join(", ")))));
            }
            if parameter.dtype.as_deref().is_some_and(|dtype| !is_size || size_type(dtype).is_none()) {
                return Err(wrong(format!("the parameter `{name}`: only a size has a type, `i32` or `i64`")));
            }
            passed.push(name);
        }
        for output in declaration.outputs() {
            if !passed.contains(&output.name.as_str()) {
                let hint = "list the kernel's parameters in order: [family] parameters = [...]".to_owned();
                return Err(wrong(format!("no launch has the output `{}` as a parameter", output.name))
                    .hint(Some(hint)));
            }
        }
        for axis in &family.axes {
            let known = declaration.names();
            if !known.contains(&axis.name) {
                let hint = Some(format!("axes and sizes: {}", known.join(", ")));
                return Err(wrong(format!("supports.{} is neither an axis nor a size of the op", axis.name))
                    .hint(hint));
            }
        }
        Ok(())
    }

    /// The values of the family's compile-time axes. Refuses a value that the family does not support.
    pub(crate) fn axes(
        &self,
        family: &Family,
        problem: &DeclaredProblem,
    ) -> Result<Vec<(String, String)>, Refusal> {
        let mut axes = Vec::new();
        for axis in &family.axes {
            let Some(value) = self.declaration.value(&axis.name, problem) else { continue };
            if !axis.values.contains(&value) {
                let supported: Vec<String> = axis.values.iter().map(ToString::to_string).collect();
                return Err(Refusal::new(format!(
                    "{} does not support {} = {value} (it supports {})",
                    family.name,
                    axis.name,
                    supported.join(", ")
                )));
            }
            if axis.specialised {
                axes.push((axis.name.clone(), value.to_string()));
            }
        }
        Ok(axes)
    }
}

/// The parameter that is the address of the workspace.
pub(crate) const WORKSPACE: &str = "workspace";

/// The type of a size as a parameter.
pub(crate) fn size_type(name: &str) -> Option<Dtype> {
    match name {
        "i32" | "u32" => Some(Dtype::I32),
        "i64" | "u64" => Some(Dtype::I64),
        _ => None,
    }
}

/// The values of axes and sizes as JSON.
pub(crate) fn json_values(problem: &DeclaredProblem) -> Map<String, serde_json::Value> {
    let sizes = problem.sizes.iter().map(|(name, value)| (name.clone(), json!(value)));
    let axes = problem.axes.iter().map(|(name, value)| {
        let value = match value {
            Value::Bool(truth) => json!(truth),
            Value::Int(number) => json!(number),
            Value::Text(text) => json!(text),
        };
        (name.clone(), value)
    });
    sizes.chain(axes).collect()
}

impl Declaration {
    /// Scalars, sizes and axes by name.
    pub(crate) fn json_values(&self, problem: &DeclaredProblem) -> Map<String, serde_json::Value> {
        let mut values = json_values(problem);
        for argument in self.arguments.iter().filter(|argument| argument.kind == Kind::Scalar) {
            let number = self.scalar(argument, problem);
            let is_float = match argument.dtype {
                ElementType::Fixed(dtype) => dtype.is_float(),
                ElementType::Axis(_) | ElementType::Mapped(..) => {
                    self.dtype(argument.dtype, problem).is_float()
                }
            };
            let value = if is_float { json!(self.rounded(argument, problem)) } else { json!(number as i64) };
            values.insert(argument.name.clone(), value);
        }
        values
    }

    /// A scalar as the kernel gets it: rounded to its type.
    fn rounded(&self, argument: &crate::declaration::Argument, problem: &DeclaredProblem) -> f64 {
        let dtype = self.dtype(argument.dtype, problem);
        let mut bytes = Vec::new();
        dtype.push_float(self.scalar(argument, problem), &mut bytes);
        dtype.floats(&bytes)[0]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::judge::Tolerance;

    fn output(name: &str, values: &[f64], atol: f64) -> OutputReference {
        OutputReference {
            name: name.to_owned(),
            dtype: Dtype::F32,
            dims: vec![values.len()],
            row_count: 1,
            rows: None,
            values: values.to_vec(),
            exact: Vec::new(),
            tolerance: Tolerance { rtol: 1e-6, atol, l2: 1e6, row: 1e6, row_atol: atol },
            allowed: Vec::new(),
            other_sides: HashMap::new(),
            blank: None,
        }
    }

    /// What ignoring the inputs gets right if these are the references for two inputs.
    fn vacuous(references: [Vec<OutputReference>; 2]) -> Option<VacuousPart> {
        let [first, other] =
            references.map(|outputs| DeclaredReference { outputs, sample: 0, conditioning: Arc::default() });
        let mut dependence = Dependence::new(&first);
        dependence.add(&first, &other);
        dependence.vacuous_part(&first)
    }

    #[test]
    fn elements_that_no_input_changes_are_counted_for_each_output() {
        let whole = |atol| [1.0, -1.0].map(|sign| vec![output("y", &[sign, 2.0 * sign, 3.0 * sign], atol)]);
        assert_eq!(vacuous(whole(1e-6)), None);
        assert_eq!(vacuous(whole(1e6)), Some(VacuousPart::All));
        // One element is so large that the others are within the tolerance.
        let part = [1.0, -1.0].map(|sign| vec![output("y", &[1e9 * sign, sign, sign], 10.0)]);
        assert_eq!(vacuous(part), Some(VacuousPart::Elements(vec![("y".to_owned(), 2, 3)])));
        // Half of the elements are 0, as above the diagonal of a matrix.
        let triangle = [1.0, 2.0].map(|value| vec![output("y", &[value, 0.0], 1e-6)]);
        assert_eq!(vacuous(triangle), None);
        // One of two outputs.
        let second = [1.0, -1.0].map(|sign| vec![output("y", &[sign], 1e-6), output("z", &[sign], 1e6)]);
        assert_eq!(vacuous(second), Some(VacuousPart::Elements(vec![("z".to_owned(), 1, 1)])));
    }
}
