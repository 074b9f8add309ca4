//! Implements the parts of an [`op::Op`] for ops that are declared by files.

use std::collections::HashMap;
use std::sync::Arc;

use family::{Candidate, Family, SettingError, Sizes};
use launch::Dtype;
use op::{
    Addresses, Arrangement, Class, Complaint, ExtraTolerance, Input, Judgement, LaunchParameters, OpInputs,
    OpJudgement, OpPeers, OpProblems, OpReference, Output, PeerProblem, Peers, Picture, Refusal, Similarity,
    SuiteText, TensorShape, VacuousPart, Work,
};

use crate::declaration::{Kind, ReferenceSource};
use crate::declared_op::{DeclaredOp, DeclaredReference, Dependence, WORKSPACE, size_type};
use crate::error_map;
use crate::inputs::DeclaredInputs;
use crate::judge::{self, OutputReference};
use crate::peers;
use crate::problem::DeclaredProblem;
use crate::rows::Precision;
use crate::sweep;

impl OpProblems for DeclaredOp {
    type Problem = DeclaredProblem;

    fn name(&self) -> &str {
        &self.files.name
    }

    fn problems(&self, text: &str) -> Result<Vec<DeclaredProblem>, Refusal> {
        if sweep::is_sweep(text) {
            let base = self.default_problems().first().and_then(|name| self.declaration.problem(name).ok());
            return sweep::problems(&self.declaration, base.as_ref(), text);
        }
        Ok(vec![self.declaration.problem(text)?])
    }

    fn aliases(&self) -> Vec<String> {
        self.declaration.aliases.keys().cloned().collect()
    }

    fn problem_from_fields(&self, fields: &toml::Table) -> Result<DeclaredProblem, Refusal> {
        self.declaration.problem_from_fields(fields)
    }

    fn in_words(&self, problem: &DeclaredProblem) -> String {
        let sizes = problem.sizes.iter().map(|(name, value)| format!("{name} {value}"));
        let axes = problem.axes.iter().map(|(name, value)| format!("{name} {value}"));
        sizes.chain(axes).collect::<Vec<_>>().join(", ")
    }

    fn name_help(&self) -> String {
        let sizes = self.size_descriptions().filter(|(_, about)| !about.is_empty());
        let sizes: Vec<String> = sizes.map(|(name, about)| format!("{name}: {about}.")).collect();
        let example = self.declaration.example();
        let example = example.split("; aliases").next().unwrap_or_default().replacen('a', "A", 1);
        let parts = [vec![format!("{}.", self.declaration.description)], sizes, vec![format!("{example}.")]];
        parts.concat().join(" ")
    }

    fn suites(&self) -> Vec<SuiteText> {
        let suites = self.files.suites.iter();
        suites.map(|(name, text)| SuiteText { name: name.clone(), text: text.clone() }).collect()
    }

    fn default_problems(&self) -> Vec<String> {
        let declaration = &self.declaration;
        if let Some(problem) = self.problem_of_files() {
            return vec![problem.to_string()];
        }
        let values = declaration.axes.first().map_or(vec![None], |axis| {
            axis.values.iter().map(|value| crate::problem::axis_label(axis, value)).collect()
        });
        let names = declaration.aliases.keys().flat_map(|alias| {
            values.iter().map(move |value| match value {
                Some(value) => format!("{alias}-{value}"),
                None => alias.clone(),
            })
        });
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            return names;
        }
        let declared = declaration.defaults().map(|problem| problem.to_string());
        declared.or_else(|| self.edge_problems().into_iter().next()).into_iter().collect()
    }

    fn small_problem(&self) -> String {
        self.problem_of_files().unwrap_or_else(|| self.declaration.small()).to_string()
    }

    fn edge_problems(&self) -> Vec<String> {
        if self.declaration.has_files() {
            return Vec::new();
        }
        self.declaration.edges(&self.tiles).iter().map(ToString::to_string).collect()
    }

    fn fuzzed(&self, draw: u64) -> DeclaredProblem {
        self.problem_of_files().unwrap_or_else(|| self.declaration.fuzzed(draw))
    }

    fn cut(&self, problem: &DeclaredProblem, flops: f64) -> DeclaredProblem {
        // A file has only its own size.
        if self.declaration.has_files() { problem.clone() } else { self.declaration.cut(problem, flops) }
    }

    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &DeclaredProblem,
    ) -> Result<Candidate, Refusal> {
        self.check_family(family)?;
        let candidate = family.candidate(preset, knobs, &self.axes(family, problem)?)?;
        family.check_sizes(&candidate, &problem.runtime_sizes()).map_err(|error| match error {
            SettingError::Constraint { because, numbers, .. } => {
                Refusal::new(format!("{} does not support {problem}: {because} ({numbers})", family.name))
            }
            other => other.into(),
        })?;
        Ok(candidate)
    }

    fn sizes(&self, problem: &DeclaredProblem) -> Sizes {
        problem.runtime_sizes()
    }

    fn work(&self, problem: &DeclaredProblem) -> Work {
        self.declaration.work(problem)
    }

    fn matrix_type(&self, problem: &DeclaredProblem) -> Option<&str> {
        Some(match self.declaration.dtype(self.declaration.work.matrix?, problem) {
            Dtype::F16 => "fp16",
            Dtype::F32 => "tf32",
            Dtype::F64 => "fp64",
            Dtype::I8 | Dtype::U8 => "int8",
            other => other.name(),
        })
    }

    /// The best setting depends on the variant and on the work per row; the number of rows only decides how many blocks
    /// there are.
    fn similarity(&self, problem: &DeclaredProblem) -> Similarity {
        const OCTAVES: i32 = 12;
        let labels = problem.axes.iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>().join("-");
        let work = self.work(problem);
        let size = work.flops.max(work.bytes as f64);
        if self.declaration.independent.is_empty() {
            return Similarity { kind: labels, related: Vec::new(), regime: 0, size };
        }
        let octave = (size / self.declaration.rows(problem) as f64).max(1.0).log2().round() as i32;
        let kind = |octave: i32| format!("{labels}-row2^{octave}");
        let related = (1..=OCTAVES).flat_map(|step| [kind(octave - step), kind(octave + step)]);
        Similarity { kind: kind(octave), related: related.collect(), regime: 0, size }
    }
}

impl OpInputs for DeclaredOp {
    type Inputs = DeclaredInputs;

    fn classes(&self) -> Vec<&str> {
        if self.declaration.has_fixed_inputs() {
            return vec![Class::Normal.name()];
        }
        self.declaration.classes.iter().map(|class| class.name()).collect()
    }

    fn hard_classes(&self) -> Vec<&str> {
        let hard = [Class::Large, Class::Outliers].into_iter();
        let hard: Vec<&str> =
            hard.filter(|class| self.declaration.classes.contains(class)).map(Class::name).collect();
        if hard.is_empty() { self.classes().into_iter().rev().take(1).collect() } else { hard }
    }

    fn inputs(&self, problem: &DeclaredProblem, class: &str, seed: u64) -> Result<DeclaredInputs, Refusal> {
        self.declaration.draw(problem, class.parse().map_err(Refusal::new)?, seed)
    }

    fn timed_inputs(
        &self,
        problem: &DeclaredProblem,
        class: &str,
        seed: u64,
    ) -> Result<DeclaredInputs, Refusal> {
        self.inputs(problem, class, seed)
    }

    fn opposite(
        &self,
        _problem: &DeclaredProblem,
        inputs: &DeclaredInputs,
        class: &str,
        seed: u64,
    ) -> Result<DeclaredInputs, Refusal> {
        self.declaration.oppose(inputs, class.parse().map_err(Refusal::new)?, seed)
    }

    fn input_names(&self) -> Vec<&str> {
        self.declaration.inputs().map(|argument| argument.name.as_str()).collect()
    }

    fn redraw(
        &self,
        problem: &DeclaredProblem,
        inputs: &DeclaredInputs,
        which: &str,
        seed: u64,
    ) -> DeclaredInputs {
        let mut redrawn = inputs.clone();
        let argument = self.declaration.inputs().enumerate().find(|(_, argument)| argument.name == which);
        if let Some((index, argument)) = argument
            // This cannot fail: the shapes were computed when the inputs were drawn.
            && let Ok(tensor) = self.declaration.draw_one(problem, argument, inputs.class, (seed, index))
        {
            redrawn.tensors[index] = tensor;
        }
        redrawn
    }

    fn mutated(&self, _problem: &DeclaredProblem, inputs: &DeclaredInputs, seed: u64) -> DeclaredInputs {
        self.declaration.mutated(inputs, seed)
    }

    fn arrange(&self, _family: &Family, problem: &DeclaredProblem, inputs: &DeclaredInputs) -> Arrangement {
        let declaration = &self.declaration;
        let mut arrangement = Arrangement { inputs: Vec::new(), outputs: Vec::new(), tensors: Vec::new() };
        for argument in declaration.arguments.iter().filter(|argument| argument.kind != Kind::Scalar) {
            let dtype = declaration.dtype(argument.dtype, problem);
            let given = inputs.tensors.iter().find(|tensor| tensor.name == argument.name);
            let sign_bits =
                if dtype.is_float() && dtype != Dtype::F64 { 8 * dtype.bytes() as u32 } else { 0 };
            let name = argument.name.clone();
            if argument.kind == Kind::In {
                let bytes = given.map(|tensor| tensor.bytes.clone()).unwrap_or_default();
                let is_fixed = argument.range.is_some() || argument.contents.is_some();
                let sign_bits = if is_fixed { 0 } else { sign_bits };
                arrangement.inputs.push(Input { name, bytes, sign_bits });
            } else {
                let bytes = declaration.bytes(argument, problem).unwrap_or(0) as usize;
                let initial = given.map(|tensor| tensor.bytes.clone());
                let initial = initial.or_else(|| argument.zeroed.then(|| Arc::new(vec![0; bytes])));
                let sign_bits = 8 * dtype.bytes() as u32;
                arrangement.outputs.push(Output { name, bytes, blank: blank(dtype), sign_bits, initial });
            }
            let dims = declaration.shape(argument, problem).unwrap_or_default();
            arrangement.tensors.extend(tensor_shape(&argument.name, dtype, &dims));
        }
        arrangement
    }

    fn parameters(
        &self,
        family: &Family,
        problem: &DeclaredProblem,
        _inputs: &DeclaredInputs,
        addresses: &Addresses,
    ) -> Vec<LaunchParameters> {
        let parameter = |parameter: &family::Parameter| {
            let mut bytes = Vec::new();
            let argument = self.declaration.arguments.iter().find(|argument| argument.name == parameter.name);
            if let Some(size) = problem.size(&parameter.name) {
                let dtype = parameter.dtype.as_deref().and_then(size_type).unwrap_or(Dtype::I32);
                dtype.push_integer(size, &mut bytes);
            } else if let Some(scalar) = argument.filter(|argument| argument.kind == Kind::Scalar) {
                let dtype = self.declaration.dtype(scalar.dtype, problem);
                dtype.push_float(self.declaration.scalar(scalar, problem), &mut bytes);
            } else if parameter.name == WORKSPACE {
                bytes.extend(addresses.workspace.to_le_bytes());
            } else {
                bytes.extend(addresses.address(&parameter.name).to_le_bytes());
            }
            bytes
        };
        family.parameters().map(|launch| launch.iter().map(parameter).collect()).collect()
    }
}

/// The shape for tensor maps: at most five dimensions, with rows of a multiple of 16 bytes.
fn tensor_shape(name: &str, dtype: Dtype, dims: &[usize]) -> Option<TensorShape> {
    use vgpu::tensor_map::Element;
    let element = match dtype {
        Dtype::F16 => Element::F16,
        Dtype::Bf16 => Element::Bf16,
        Dtype::F32 => Element::F32,
        Dtype::E4m3 | Dtype::E5m2 | Dtype::U8 | Dtype::I8 => Element::U8,
        _ => return None,
    };
    let innermost_first: Vec<u64> = dims.iter().rev().map(|&extent| extent as u64).collect();
    let mut strides = Vec::new();
    let mut bytes = dtype.bytes() as u64;
    for extent in innermost_first.iter().take(innermost_first.len().saturating_sub(1)) {
        bytes *= extent;
        strides.push(bytes);
    }
    let fits = (1..=5).contains(&dims.len()) && strides.iter().all(|stride| stride % 16 == 0);
    fits.then(|| TensorShape { name: name.to_owned(), element, dims: innermost_first, strides })
}

/// The word that fills an output before the launch: a NaN of its type, or for integers an arbitrary pattern.
fn blank(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F64 => 0x7ff8_dead,
        Dtype::F32 => 0x7fc0_beef,
        Dtype::F16 => 0x7e2b_7e2b,
        Dtype::Bf16 => 0x7fcb_7fcb,
        Dtype::E4m3 | Dtype::E5m2 => 0x7f7f_7f7f,
        _ => 0xa5a5_a5a5,
    }
}

/// One answer must be right on this many other inputs before it is said not to depend on its inputs: the answers of a
/// tiny problem can be equal by chance, such as a sign.
const OTHER_INPUTS: u64 = 8;

impl OpReference for DeclaredOp {
    type Reference = DeclaredReference;

    fn reference(
        &self,
        problem: &DeclaredProblem,
        inputs: &DeclaredInputs,
        sample: u64,
    ) -> Result<DeclaredReference, Refusal> {
        let values = self.reference_values(problem, inputs, sample, Precision::Double)?;
        let declaration = &self.declaration;
        let mut outputs = Vec::new();
        for (argument, values) in declaration.outputs().zip(values.outputs) {
            let dtype = declaration.dtype(argument.dtype, problem);
            let dims = declaration.shape(argument, problem)?;
            // A zeroed output has no element that was not written.
            let blank = (argument.kind == Kind::Out && !argument.zeroed).then(|| blank(dtype));
            outputs.push(OutputReference {
                name: argument.name.clone(),
                dtype,
                dims,
                row_count: if declaration.has_independent_rows(argument) {
                    declaration.rows(problem)
                } else {
                    1
                },
                rows: values.rows,
                tolerance: declaration.tolerance(&argument.name, dtype, problem, &values.numbers),
                values: values.numbers,
                exact: values.exact,
                allowed: Vec::new(),
                other_sides: HashMap::new(),
                blank,
            });
        }
        Ok(DeclaredReference { outputs, sample, conditioning: Arc::default() })
    }

    fn require_reference(&self) -> Result<(), Refusal> {
        match self.declaration.reference {
            ReferenceSource::Python(_) => self.python.require_numpy(),
            _ => Ok(()),
        }
    }

    fn vacuous_part(&self, problem: &DeclaredProblem, seed: u64) -> Result<Option<VacuousPart>, Refusal> {
        let declaration = &self.declaration;
        if declaration.has_fixed_inputs() || declaration.inputs().next().is_none() {
            return Ok(None);
        }
        let class = declaration.classes[0];
        let reference = |purpose: u64| {
            let inputs = declaration.draw(problem, class, op::derive_seed(seed, purpose))?;
            self.reference(problem, &inputs, seed)
        };
        let first = reference(0)?;
        let mut dependence = Dependence::new(&first);
        for other in 1..=OTHER_INPUTS {
            dependence.add(&first, &reference(other)?);
            if dependence.vacuous_part(&first).is_none() {
                return Ok(None);
            }
        }
        Ok(dependence.vacuous_part(&first))
    }

    fn check_is_not_reference(&self, family: &Family) -> Result<(), Refusal> {
        self.refuse_reference(family)
    }

    fn limits_of_checks(&self) -> Option<String> {
        let fixed = self.declaration.has_fixed_inputs().then(|| {
            "all inputs come from files, so there is only one set of inputs: a kernel that stores the answer would pass"
                .to_owned()
        });
        let family = match &self.declaration.reference {
            ReferenceSource::Family(name) => Some(format!(
                "the reference is the kernel {name}: a mistake that both kernels have is not found"
            )),
            _ => None,
        };
        let limits: Vec<String> = fixed.into_iter().chain(family).collect();
        (!limits.is_empty()).then(|| limits.join("; "))
    }
}

impl OpJudgement for DeclaredOp {
    fn extra_tolerance(
        &self,
        family: &Family,
        _problem: &DeclaredProblem,
        ptx: &str,
    ) -> Option<ExtraTolerance> {
        (!family.deterministic && op::adds_atomically(ptx)).then(|| ExtraTolerance {
            name: "unordered".to_owned(),
            note:
                "declared as not deterministic: launches on the same inputs may differ within the tolerance"
                    .to_owned(),
            is_unordered: true,
        })
    }

    fn judge(
        &self,
        extra: Option<&ExtraTolerance>,
        inputs: &DeclaredInputs,
        reference: &DeclaredReference,
        outputs: &[Vec<u8>],
    ) -> Judgement {
        let judgement = judge::judge(&reference.outputs, outputs);
        // An integer may have the bits of an element that was not written.
        let is_float = reference.outputs.iter().all(|output| output.dtype.is_float());
        let is_missing = |it: &Complaint| it.kind == "non-finite" || it.kind == "unwritten" && is_float;
        if judgement.complaints.is_empty() || judgement.complaints.iter().any(is_missing) {
            return judgement;
        }
        let conditioning = reference.conditioning.get_or_init(|| self.conditioning(inputs, reference));
        let problem = &inputs.problem;
        let declared = self.declaration.reduction(problem);
        let with = |reduction: f64, more: f64| {
            let widened = reference.outputs.iter().enumerate().map(|(index, output)| {
                let tolerance =
                    self.declaration.tolerance_of(&output.name, output.dtype, reduction, &output.values);
                output.conditioned(tolerance, conditioning.get(index), more)
            });
            judge::judge(&widened.collect::<Vec<_>>(), outputs)
        };
        let mut judgement = with(declared, 1.0);
        // Atomic additions are a long sum, whose length the counts of elements show.
        if self.declaration.reduction.is_none() && extra.is_some_and(|it| it.is_unordered) {
            let unordered = with(inputs.terms_of_a_result(&reference.outputs), 1.0);
            if unordered.complaints.is_empty() {
                return unordered;
            }
        }
        if let Some(last) = judgement.complaints.last_mut()
            && self.declaration.reduction.is_none()
            && let Some(fitting) = inputs
                .possible_reductions()
                .find(|&it| with(it, (it / declared).sqrt()).complaints.is_empty())
        {
            last.message += &format!(
                "; it would be right for a sum of {fitting} terms: if the kernel adds that many, declare the length of \
                 its longest sum (`reduction` in [tolerance])"
            );
        }
        judgement
    }

    fn ignored_input(
        &self,
        _extra: Option<&ExtraTolerance>,
        which: &str,
        before: (&DeclaredReference, &[Vec<u8>]),
        after: (&DeclaredReference, &[Vec<u8>]),
    ) -> Option<Complaint> {
        if before.1 != after.1 {
            return None;
        }
        // The same bits are right only if no element had to change by more than its tolerance.
        before.0.differs_from(after.0).then(|| Complaint {
            kind: "ignored-input".to_owned(),
            message: format!("the answer does not change when {which} does"),
        })
    }

    fn picture(
        &self,
        _candidate: &Candidate,
        _extra: Option<&ExtraTolerance>,
        _inputs: &DeclaredInputs,
        reference: &DeclaredReference,
        outputs: &[Vec<u8>],
    ) -> Option<Picture> {
        error_map::draw(&reference.outputs, outputs)
    }
}

impl OpPeers for DeclaredOp {
    fn peers(&self) -> Option<Peers> {
        peers::peers(self)
    }

    fn peer_problem(&self, problem: &DeclaredProblem, inputs: &DeclaredInputs) -> PeerProblem {
        peers::problem(self, problem, inputs)
    }

    fn judge_peer(
        &self,
        _name: &str,
        inputs: &DeclaredInputs,
        reference: &DeclaredReference,
        outputs: Vec<Vec<u8>>,
    ) -> Judgement {
        self.judge(None, inputs, reference, &outputs)
    }
}
