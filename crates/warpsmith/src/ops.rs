//! The ops that the program knows: attention, which has its own code, and every op that is declared by files.

use std::fmt;

use attention::{Attention, AttentionInputs, AttentionReference};
use declared::{DeclaredInputs, DeclaredOp, DeclaredProblem, DeclaredReference};
use family::{Candidate, Catalog, CatalogError, Family, Sizes};
use op::{
    Addresses, Arrangement, Complaint, ExtraTolerance, Judgement, LaunchParameters, OpInputs, OpJudgement,
    OpPeers, OpProblems, OpReference, PeerProblem, Peers, Picture, Refusal, Similarity, SuiteText, Work,
};

use crate::cli::{Evaluator, Global};
use crate::error::CommandError;
use crate::family_reference;
use crate::printer::Printer;

/// The op of commands that name neither a family nor an op.
pub const DEFAULT: &str = "attention";

/// Any op.
#[derive(Debug)]
pub enum AnyOp {
    /// Attention.
    Attention(Attention),
    /// An op that is declared by files.
    Declared(Box<DeclaredOp>),
}

/// A problem of any op.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// A problem of attention.
    Attention(attention::Problem),
    /// A problem of a declared op.
    Declared(DeclaredProblem),
}

/// Inputs of any op.
#[derive(Debug)]
pub enum Inputs {
    /// Inputs of attention.
    Attention(Box<AttentionInputs>),
    /// Inputs of a declared op.
    Declared(DeclaredInputs),
}

/// The reference of any op.
#[derive(Debug)]
pub enum Reference {
    /// A reference of attention.
    Attention(Box<AttentionReference>),
    /// A reference of a declared op.
    Declared(DeclaredReference),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Attention(problem) => problem.fmt(f),
            Problem::Declared(problem) => problem.fmt(f),
        }
    }
}

impl AnyOp {
    /// The op with this name.
    pub fn named(name: &str, catalog: &Catalog) -> Result<Self, CommandError> {
        if let Some(files) = catalog.op(name) {
            let own = catalog.entries().iter().filter(|entry| entry.op == name);
            let families = own.filter_map(|entry| entry.family.as_ref().ok());
            let mut op =
                DeclaredOp::new(files, families).map_err(|errors| CommandError::usage(errors.to_string()))?;
            op.read_arrays()?;
            op.check_arrays()?;
            return Ok(AnyOp::Declared(Box::new(op)));
        }
        if name == Attention.name() {
            return Ok(AnyOp::Attention(Attention));
        }
        let known = names(catalog);
        let near = family::nearest(name, known.iter().map(String::as_str));
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        let has_families = catalog.entries().iter().any(|entry| entry.op == name);
        let message = if has_families {
            format!("the op `{name}` has families but no {}", family::OP_FILE)
        } else {
            format!("there is no op `{name}`")
        };
        Err(CommandError::usage(message).hint(format!("{near}ops: {}", known.join(", "))))
    }

    /// The op with this name, in a process that runs kernels but computes no reference.
    pub fn for_worker(name: &str, catalog: &Catalog) -> Result<Self, CommandError> {
        match catalog.op(name) {
            Some(files) => {
                let op = DeclaredOp::without_scripts(files);
                let mut op = op.map_err(|errors| CommandError::usage(errors.to_string()))?;
                op.read_arrays()?;
                Ok(AnyOp::Declared(Box::new(op)))
            }
            None => Self::named(name, catalog),
        }
    }

    /// The op of a command: the named one, or that of its families, or attention. A family may be named by its op,
    /// which means all families of the op.
    pub fn of_command(global: &Global, families: &[String], catalog: &Catalog) -> Result<Self, CommandError> {
        let named = global.op.as_deref();
        let mut found: Option<String> = named.map(str::to_owned);
        for family in families.iter().filter(|family| *family != lab::bench::CHOSEN) {
            let op = if is_op(family, catalog) {
                family.clone()
            } else {
                in_op(family, named, catalog)?.op.clone()
            };
            if let Some(other) = found.as_ref().filter(|other| **other != op) {
                return Err(CommandError::usage(format!("{family} belongs to the op {op}, not to {other}"))
                    .hint("name families of one op"));
            }
            found = Some(op);
        }
        let mut op = Self::named(found.as_deref().unwrap_or(DEFAULT), catalog)?;
        if let AnyOp::Declared(op) = &mut op {
            family_reference::provide(op, global);
        }
        Ok(op)
    }

    /// The family with this name.
    pub fn family<'c>(&self, name: &str, catalog: &'c Catalog) -> Result<&'c Family, CommandError> {
        in_op(name, Some(self.name()), catalog)
    }

    /// The families of the op, or an error in one of their manifests.
    pub fn families<'c>(&self, catalog: &'c Catalog) -> Result<Vec<&'c Family>, CommandError> {
        let own = catalog.entries().iter().filter(|entry| entry.op == self.name());
        own.map(|entry| entry.family.as_ref().map_err(|error| CommandError::usage(error.to_string())))
            .collect()
    }

    /// The families that a command names, each by its own name or all by the op's name. All families if none is named.
    pub fn named_families<'c>(
        &self,
        names: &[String],
        catalog: &'c Catalog,
    ) -> Result<Vec<&'c Family>, CommandError> {
        if names.is_empty() {
            return self.families(catalog);
        }
        let mut families: Vec<&Family> = Vec::new();
        for name in names {
            let found =
                if name == self.name() { self.families(catalog)? } else { vec![self.family(name, catalog)?] };
            for family in found {
                if !families.iter().any(|known| known.name == family.name) {
                    families.push(family);
                }
            }
        }
        Ok(families)
    }

    /// The family that a search uses if none is named.
    pub fn search_family<'c>(&self, catalog: &'c Catalog) -> Result<&'c Family, CommandError> {
        if let Some(name) = self.default_family() {
            return self.family(name, catalog);
        }
        let families = self.families(catalog)?;
        let best = families.iter().find(|family| !family.plain).or(families.first());
        best.copied().ok_or_else(|| CommandError::usage(format!("the op {} has no families", self.name())))
    }

    /// The family that is written to be obvious, which is a baseline everywhere.
    pub fn plain_family<'c>(&self, catalog: &'c Catalog) -> Option<&'c Family> {
        self.families(catalog).ok()?.into_iter().find(|family| family.plain)
    }

    /// The one problem that a name stands for.
    pub fn problem(&self, name: &str) -> Result<Problem, CommandError> {
        let mut problems = self.problems(name)?;
        match (problems.pop(), problems.is_empty()) {
            (Some(problem), true) => Ok(problem),
            _ => Err(CommandError::usage(format!("`{name}` names several problems; name one"))),
        }
    }

    /// The problem of commands that name none.
    pub fn default_problem(&self) -> String {
        self.default_problems().into_iter().next().unwrap_or_default()
    }

    /// Refuses to start if the machine lacks what the reference needs, and says what the reference cannot show.
    pub fn require_reference(&self, printer: &Printer) -> Result<(), CommandError> {
        let AnyOp::Declared(op) = self else { return Ok(()) };
        if let Some(limits) = op.limits_of_checks() {
            printer.message(&format!("note: {limits}"));
        }
        if op.needs_numpy() { Ok(declared::require_numpy()?) } else { Ok(()) }
    }
}

/// The names of all ops.
pub fn names(catalog: &Catalog) -> Vec<String> {
    let mut names = vec![Attention.name().to_owned()];
    names.extend(catalog.ops().map(|op| op.name.clone()).filter(|name| name != Attention.name()));
    names
}

fn is_op(name: &str, catalog: &Catalog) -> bool {
    name == Attention.name() || catalog.op(name).is_some()
}

/// A family by its name, or by its name within an op.
fn in_op<'c>(name: &str, op: Option<&str>, catalog: &'c Catalog) -> Result<&'c Family, CommandError> {
    if let Some(op) = op.filter(|_| !name.contains('/')) {
        match catalog.family(&format!("{op}/{name}")) {
            Err(CatalogError::UnknownFamily { .. }) => {}
            other => return Ok(other?),
        }
    }
    Ok(catalog.family(name)?)
}

/// Calls a method of the op with its own problem. An op only ever gets problems, inputs and references that it made.
macro_rules! call {
    ($op:expr, $problem:expr, |$own:ident, $its:ident| $body:expr) => {
        match ($op, $problem) {
            (AnyOp::Attention($own), Problem::Attention($its)) => $body,
            (AnyOp::Declared($own), Problem::Declared($its)) => $body,
            _ => unreachable!("a problem of another op"),
        }
    };
}

/// Like `call`, with inputs, too.
macro_rules! call_with {
    ($op:expr, $problem:expr, $inputs:expr, |$own:ident, $its:ident, $given:ident| $body:expr) => {
        match ($op, $problem, $inputs) {
            (AnyOp::Attention($own), Problem::Attention($its), Inputs::Attention($given)) => $body,
            (AnyOp::Declared($own), Problem::Declared($its), Inputs::Declared($given)) => $body,
            _ => unreachable!("a problem or inputs of another op"),
        }
    };
}

/// Like `call`, with inputs and a reference.
macro_rules! judge {
    ($op:expr, $inputs:expr, $reference:expr, |$own:ident, $given:ident, $right:ident| $body:expr) => {
        match ($op, $inputs, $reference) {
            (AnyOp::Attention($own), Inputs::Attention($given), Reference::Attention($right)) => $body,
            (AnyOp::Declared($own), Inputs::Declared($given), Reference::Declared($right)) => $body,
            _ => unreachable!("inputs or a reference of another op"),
        }
    };
}

/// Calls a method of the op.
macro_rules! each {
    ($op:expr, |$own:ident| $body:expr) => {
        match $op {
            AnyOp::Attention($own) => $body,
            AnyOp::Declared($own) => $body,
        }
    };
}

impl AnyOp {
    /// The files of a problem for another project's evaluator: path and text.
    pub fn export(&self, evaluator: Evaluator, problem: &Problem) -> Result<Vec<(String, String)>, Refusal> {
        let evaluator = match evaluator {
            Evaluator::KernelBench => attention::export::Evaluator::KernelBench,
            Evaluator::FlashInferBench => attention::export::Evaluator::FlashInferBench,
        };
        match problem {
            Problem::Attention(problem) => attention::export::files(evaluator, problem),
            Problem::Declared(_) => {
                Err(Refusal::new("only attention can be exported; its kernels are in the Python package"))
            }
        }
    }
}

impl AnyOp {
    /// A problem of attention by name, whose tensors can be quantised to FP8.
    pub fn quantisable(&self, name: &str) -> Result<attention::Problem, CommandError> {
        if let AnyOp::Declared(_) = self {
            let message = format!("`fp8` is a command for attention, not for {}", self.name());
            return Err(CommandError::usage(message));
        }
        match self.problem(name)? {
            Problem::Attention(problem) if problem.dtype != attention::Dtype::E4m3 => Ok(problem),
            problem => Err(CommandError::usage(format!("{problem} is in FP8 already"))
                .hint("name a problem in fp16 or bf16, such as mission or mission-bf16")),
        }
    }
}

impl OpProblems for AnyOp {
    type Problem = Problem;

    fn name(&self) -> &str {
        each!(self, |op| op.name())
    }

    fn problems(&self, text: &str) -> Result<Vec<Problem>, Refusal> {
        Ok(match self {
            AnyOp::Attention(op) => op.problems(text)?.into_iter().map(Problem::Attention).collect(),
            AnyOp::Declared(op) => op.problems(text)?.into_iter().map(Problem::Declared).collect(),
        })
    }

    fn aliases(&self) -> Vec<String> {
        each!(self, |op| op.aliases())
    }

    fn problem_from_fields(&self, fields: &toml::Table) -> Result<Problem, Refusal> {
        Ok(match self {
            AnyOp::Attention(op) => Problem::Attention(op.problem_from_fields(fields)?),
            AnyOp::Declared(op) => Problem::Declared(op.problem_from_fields(fields)?),
        })
    }

    fn in_words(&self, problem: &Problem) -> String {
        call!(self, problem, |op, problem| op.in_words(problem))
    }

    fn name_help(&self) -> String {
        each!(self, |op| op.name_help())
    }

    fn suites(&self) -> Vec<SuiteText> {
        each!(self, |op| op.suites())
    }

    fn default_problems(&self) -> Vec<String> {
        each!(self, |op| op.default_problems())
    }

    fn small_problem(&self) -> String {
        each!(self, |op| op.small_problem())
    }

    fn edge_problems(&self) -> Vec<String> {
        each!(self, |op| op.edge_problems())
    }

    fn class_problems(&self) -> Vec<String> {
        each!(self, |op| op.class_problems())
    }

    fn fuzzed(&self, draw: u64) -> Problem {
        match self {
            AnyOp::Attention(op) => Problem::Attention(op.fuzzed(draw)),
            AnyOp::Declared(op) => Problem::Declared(op.fuzzed(draw)),
        }
    }

    fn cut(&self, problem: &Problem, flops: f64) -> Problem {
        match (self, problem) {
            (AnyOp::Attention(op), Problem::Attention(problem)) => Problem::Attention(op.cut(problem, flops)),
            (AnyOp::Declared(op), Problem::Declared(problem)) => Problem::Declared(op.cut(problem, flops)),
            _ => unreachable!("a problem of another op"),
        }
    }

    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        problem: &Problem,
    ) -> Result<Candidate, Refusal> {
        call!(self, problem, |op, problem| op.candidate(family, preset, knobs, problem))
    }

    fn sizes(&self, problem: &Problem) -> Sizes {
        call!(self, problem, |op, problem| op.sizes(problem))
    }

    fn work(&self, problem: &Problem) -> Work {
        call!(self, problem, |op, problem| op.work(problem))
    }

    fn matrix_type(&self, problem: &Problem) -> Option<&str> {
        call!(self, problem, |op, problem| op.matrix_type(problem))
    }

    fn similarity(&self, problem: &Problem) -> Similarity {
        call!(self, problem, |op, problem| op.similarity(problem))
    }

    fn preferred_families(&self) -> &[&str] {
        each!(self, |op| op.preferred_families())
    }

    fn default_family(&self) -> Option<&str> {
        each!(self, |op| op.default_family())
    }
}

impl OpInputs for AnyOp {
    type Inputs = Inputs;

    fn classes(&self) -> Vec<&str> {
        each!(self, |op| op.classes())
    }

    fn hard_classes(&self) -> Vec<&str> {
        each!(self, |op| op.hard_classes())
    }

    fn inputs(&self, problem: &Problem, class: &str, seed: u64) -> Result<Inputs, Refusal> {
        Ok(match (self, problem) {
            (AnyOp::Attention(op), Problem::Attention(problem)) => {
                Inputs::Attention(Box::new(op.inputs(problem, class, seed)?))
            }
            (AnyOp::Declared(op), Problem::Declared(problem)) => {
                Inputs::Declared(op.inputs(problem, class, seed)?)
            }
            _ => unreachable!("a problem of another op"),
        })
    }

    fn timed_inputs(&self, problem: &Problem, class: &str, seed: u64) -> Result<Inputs, Refusal> {
        Ok(match (self, problem) {
            (AnyOp::Attention(op), Problem::Attention(problem)) => {
                Inputs::Attention(Box::new(op.timed_inputs(problem, class, seed)?))
            }
            (AnyOp::Declared(op), Problem::Declared(problem)) => {
                Inputs::Declared(op.timed_inputs(problem, class, seed)?)
            }
            _ => unreachable!("a problem of another op"),
        })
    }

    fn opposite(
        &self,
        problem: &Problem,
        inputs: &Inputs,
        class: &str,
        seed: u64,
    ) -> Result<Inputs, Refusal> {
        Ok(match (self, problem, inputs) {
            (AnyOp::Attention(op), Problem::Attention(problem), Inputs::Attention(inputs)) => {
                Inputs::Attention(Box::new(op.opposite(problem, inputs, class, seed)?))
            }
            (AnyOp::Declared(op), Problem::Declared(problem), Inputs::Declared(inputs)) => {
                Inputs::Declared(op.opposite(problem, inputs, class, seed)?)
            }
            _ => unreachable!("a problem or inputs of another op"),
        })
    }

    fn input_names(&self) -> Vec<&str> {
        each!(self, |op| op.input_names())
    }

    fn redraw(&self, problem: &Problem, inputs: &Inputs, which: &str, seed: u64) -> Inputs {
        match (self, problem, inputs) {
            (AnyOp::Attention(op), Problem::Attention(problem), Inputs::Attention(inputs)) => {
                Inputs::Attention(Box::new(op.redraw(problem, inputs, which, seed)))
            }
            (AnyOp::Declared(op), Problem::Declared(problem), Inputs::Declared(inputs)) => {
                Inputs::Declared(op.redraw(problem, inputs, which, seed))
            }
            _ => unreachable!("a problem or inputs of another op"),
        }
    }

    fn mutated(&self, problem: &Problem, inputs: &Inputs, seed: u64) -> Inputs {
        match (self, problem, inputs) {
            (AnyOp::Attention(op), Problem::Attention(problem), Inputs::Attention(inputs)) => {
                Inputs::Attention(Box::new(op.mutated(problem, inputs, seed)))
            }
            (AnyOp::Declared(op), Problem::Declared(problem), Inputs::Declared(inputs)) => {
                Inputs::Declared(op.mutated(problem, inputs, seed))
            }
            _ => unreachable!("a problem or inputs of another op"),
        }
    }

    fn arrange(&self, family: &Family, problem: &Problem, inputs: &Inputs) -> Arrangement {
        call_with!(self, problem, inputs, |op, problem, inputs| op.arrange(family, problem, inputs))
    }

    fn parameters(
        &self,
        family: &Family,
        problem: &Problem,
        inputs: &Inputs,
        addresses: &Addresses,
    ) -> Vec<LaunchParameters> {
        call_with!(self, problem, inputs, |op, problem, inputs| op
            .parameters(family, problem, inputs, addresses))
    }
}

impl OpReference for AnyOp {
    type Reference = Reference;

    fn reference(&self, problem: &Problem, inputs: &Inputs, sample: u64) -> Result<Reference, Refusal> {
        Ok(match (self, problem, inputs) {
            (AnyOp::Attention(op), Problem::Attention(problem), Inputs::Attention(inputs)) => {
                Reference::Attention(Box::new(op.reference(problem, inputs, sample)?))
            }
            (AnyOp::Declared(op), Problem::Declared(problem), Inputs::Declared(inputs)) => {
                Reference::Declared(op.reference(problem, inputs, sample)?)
            }
            _ => unreachable!("a problem or inputs of another op"),
        })
    }
}

impl OpJudgement for AnyOp {
    fn extra_tolerance(&self, family: &Family, problem: &Problem, ptx: &str) -> Option<ExtraTolerance> {
        call!(self, problem, |op, problem| op.extra_tolerance(family, problem, ptx))
    }

    fn judge(
        &self,
        extra: Option<&ExtraTolerance>,
        inputs: &Inputs,
        reference: &Reference,
        outputs: &[Vec<u8>],
    ) -> Judgement {
        judge!(self, inputs, reference, |op, inputs, reference| op.judge(extra, inputs, reference, outputs))
    }

    fn ignored_input(
        &self,
        extra: Option<&ExtraTolerance>,
        which: &str,
        before: (&Reference, &[Vec<u8>]),
        after: (&Reference, &[Vec<u8>]),
    ) -> Option<Complaint> {
        match (self, before.0, after.0) {
            (AnyOp::Attention(op), Reference::Attention(old), Reference::Attention(new)) => {
                op.ignored_input(extra, which, (old, before.1), (new, after.1))
            }
            (AnyOp::Declared(op), Reference::Declared(old), Reference::Declared(new)) => {
                op.ignored_input(extra, which, (old, before.1), (new, after.1))
            }
            _ => unreachable!("a reference of another op"),
        }
    }

    fn picture(
        &self,
        candidate: &Candidate,
        extra: Option<&ExtraTolerance>,
        inputs: &Inputs,
        reference: &Reference,
        outputs: &[Vec<u8>],
    ) -> Option<Picture> {
        judge!(self, inputs, reference, |op, inputs, reference| op
            .picture(candidate, extra, inputs, reference, outputs))
    }
}

impl OpPeers for AnyOp {
    fn peers(&self) -> Option<Peers> {
        each!(self, |op| op.peers())
    }

    fn peer_problem(&self, problem: &Problem, inputs: &Inputs) -> PeerProblem {
        call_with!(self, problem, inputs, |op, problem, inputs| op.peer_problem(problem, inputs))
    }

    fn judge_peer(
        &self,
        name: &str,
        inputs: &Inputs,
        reference: &Reference,
        outputs: Vec<Vec<u8>>,
    ) -> Judgement {
        judge!(self, inputs, reference, |op, inputs, reference| op
            .judge_peer(name, inputs, reference, outputs))
    }
}
