//! Ops of different types behind one type, for a program that has a list of ops.
//!
//! [`AnyOp`] is an op whose problems, inputs and references are boxed. [`erase`] makes one of any op. Code that is generic
//! over ops (`O: Op + ?Sized`) accepts it like every other op.

use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

use family::{Candidate, Family, Sizes};

use crate::arrangement::{Addresses, Arrangement};
use crate::contract::{
    Complaint, ExtraTolerance, Judgement, Op, OpInputs, OpJudgement, OpPeers, OpProblems, OpReference,
    PeerProblem, Peers, Picture, Refusal, Similarity, SuiteText, Work,
};
use crate::kernel::LaunchParameters;

/// Any op.
pub type AnyOp = dyn OpPeers<Problem = AnyProblem, Inputs = AnyInputs, Reference = AnyReference>;

/// Returns an op behind the type of all ops.
pub fn erase(op: impl Op + 'static) -> Box<AnyOp> {
    Box::new(Erased(op))
}

/// A problem of any op.
#[derive(Clone, Debug)]
pub struct AnyProblem(Arc<dyn ProblemValue>);

/// Inputs of any op.
#[derive(Debug)]
pub struct AnyInputs(Box<dyn Any + Send + Sync>);

/// A reference of any op.
#[derive(Debug)]
pub struct AnyReference(Box<dyn Any + Send + Sync>);

/// What a problem can do, without its type.
trait ProblemValue: Any + fmt::Debug + fmt::Display + Send + Sync {
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<P: PartialEq + Any + fmt::Debug + fmt::Display + Send + Sync> ProblemValue for P {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<P>() == Some(self)
    }
}

impl fmt::Debug for AnyOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for AnyProblem {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

impl fmt::Display for AnyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An op that takes and returns erased values.
struct Erased<O>(O);

impl<O: Op> Erased<O> {
    fn erase_problem(problem: O::Problem) -> AnyProblem {
        AnyProblem(Arc::new(problem))
    }

    fn erase_inputs(inputs: O::Inputs) -> AnyInputs {
        AnyInputs(Box::new(inputs))
    }
}

fn problem<P: 'static>(problem: &AnyProblem) -> &P {
    let value: &dyn Any = &*problem.0;
    own(value.downcast_ref())
}

fn inputs<I: 'static>(inputs: &AnyInputs) -> &I {
    own(inputs.0.downcast_ref())
}

fn reference<R: 'static>(reference: &AnyReference) -> &R {
    own(reference.0.downcast_ref())
}

/// The value in the type of its op. A program that has several ops must give a value back only to the op that made it.
fn own<T>(value: Option<&T>) -> &T {
    value.unwrap_or_else(|| {
        panic!("a value of another op was given to an op that needs `{}`", type_name::<T>())
    })
}

/// Methods that take and return nothing of the op's own types.
macro_rules! unchanged {
    ($($method:ident -> $result:ty,)*) => {
        $(fn $method(&self) -> $result {
            self.0.$method()
        })*
    };
}

impl<O: Op> OpProblems for Erased<O> {
    type Problem = AnyProblem;

    unchanged! {
        name -> &str,
        aliases -> Vec<String>,
        name_help -> String,
        suites -> Vec<SuiteText>,
        default_problems -> Vec<String>,
        small_problem -> String,
        edge_problems -> Vec<String>,
        class_problems -> Vec<String>,
        preferred_families -> &[&str],
        default_family -> Option<&str>,
    }

    fn problems(&self, text: &str) -> Result<Vec<AnyProblem>, Refusal> {
        Ok(self.0.problems(text)?.into_iter().map(Self::erase_problem).collect())
    }

    fn problem_from_fields(&self, fields: &toml::Table) -> Result<AnyProblem, Refusal> {
        self.0.problem_from_fields(fields).map(Self::erase_problem)
    }

    fn in_words(&self, of: &AnyProblem) -> String {
        self.0.in_words(problem(of))
    }

    fn fuzzed(&self, draw: u64) -> AnyProblem {
        Self::erase_problem(self.0.fuzzed(draw))
    }

    fn cut(&self, of: &AnyProblem, flops: f64) -> AnyProblem {
        Self::erase_problem(self.0.cut(problem(of), flops))
    }

    fn candidate(
        &self,
        family: &Family,
        preset: Option<&str>,
        knobs: &[(String, String)],
        of: &AnyProblem,
    ) -> Result<Candidate, Refusal> {
        self.0.candidate(family, preset, knobs, problem(of))
    }

    fn sizes(&self, of: &AnyProblem) -> Sizes {
        self.0.sizes(problem(of))
    }

    fn work(&self, of: &AnyProblem) -> Work {
        self.0.work(problem(of))
    }

    fn matrix_type(&self, of: &AnyProblem) -> Option<&str> {
        self.0.matrix_type(problem(of))
    }

    fn similarity(&self, of: &AnyProblem) -> Similarity {
        self.0.similarity(problem(of))
    }
}

impl<O: Op> OpInputs for Erased<O> {
    type Inputs = AnyInputs;

    unchanged! {
        classes -> Vec<&str>,
        hard_classes -> Vec<&str>,
        input_names -> Vec<&str>,
    }

    fn inputs(&self, of: &AnyProblem, class: &str, seed: u64) -> Result<AnyInputs, Refusal> {
        self.0.inputs(problem(of), class, seed).map(Self::erase_inputs)
    }

    fn timed_inputs(&self, of: &AnyProblem, class: &str, seed: u64) -> Result<AnyInputs, Refusal> {
        self.0.timed_inputs(problem(of), class, seed).map(Self::erase_inputs)
    }

    fn opposite(
        &self,
        of: &AnyProblem,
        given: &AnyInputs,
        class: &str,
        seed: u64,
    ) -> Result<AnyInputs, Refusal> {
        self.0.opposite(problem(of), inputs(given), class, seed).map(Self::erase_inputs)
    }

    fn redraw(&self, of: &AnyProblem, given: &AnyInputs, which: &str, seed: u64) -> AnyInputs {
        Self::erase_inputs(self.0.redraw(problem(of), inputs(given), which, seed))
    }

    fn mutated(&self, of: &AnyProblem, given: &AnyInputs, seed: u64) -> AnyInputs {
        Self::erase_inputs(self.0.mutated(problem(of), inputs(given), seed))
    }

    fn arrange(&self, family: &Family, of: &AnyProblem, given: &AnyInputs) -> Arrangement {
        self.0.arrange(family, problem(of), inputs(given))
    }

    fn parameters(
        &self,
        family: &Family,
        of: &AnyProblem,
        given: &AnyInputs,
        addresses: &Addresses,
    ) -> Vec<LaunchParameters> {
        self.0.parameters(family, problem(of), inputs(given), addresses)
    }
}

impl<O: Op> OpReference for Erased<O> {
    type Reference = AnyReference;

    unchanged! {
        require_reference -> Result<(), Refusal>,
        limits_of_checks -> Option<&str>,
    }

    fn reference(&self, of: &AnyProblem, given: &AnyInputs, sample: u64) -> Result<AnyReference, Refusal> {
        let answer = self.0.reference(problem(of), inputs(given), sample)?;
        Ok(AnyReference(Box::new(answer)))
    }
}

impl<O: Op> OpJudgement for Erased<O> {
    fn extra_tolerance(&self, family: &Family, of: &AnyProblem, ptx: &str) -> Option<ExtraTolerance> {
        self.0.extra_tolerance(family, problem(of), ptx)
    }

    fn judge(
        &self,
        extra: Option<&ExtraTolerance>,
        given: &AnyInputs,
        right: &AnyReference,
        outputs: &[Vec<u8>],
    ) -> Judgement {
        self.0.judge(extra, inputs(given), reference(right), outputs)
    }

    fn ignored_input(
        &self,
        extra: Option<&ExtraTolerance>,
        which: &str,
        before: (&AnyReference, &[Vec<u8>]),
        after: (&AnyReference, &[Vec<u8>]),
    ) -> Option<Complaint> {
        let (before, after) = ((reference(before.0), before.1), (reference(after.0), after.1));
        self.0.ignored_input(extra, which, before, after)
    }

    fn picture(
        &self,
        candidate: &Candidate,
        extra: Option<&ExtraTolerance>,
        given: &AnyInputs,
        right: &AnyReference,
        outputs: &[Vec<u8>],
    ) -> Option<Picture> {
        self.0.picture(candidate, extra, inputs(given), reference(right), outputs)
    }
}

impl<O: Op> OpPeers for Erased<O> {
    unchanged! {
        peers -> Option<Peers>,
    }

    fn peer_problem(&self, of: &AnyProblem, given: &AnyInputs) -> PeerProblem {
        self.0.peer_problem(problem(of), inputs(given))
    }

    fn judge_peer(
        &self,
        name: &str,
        given: &AnyInputs,
        right: &AnyReference,
        outputs: Vec<Vec<u8>>,
    ) -> Judgement {
        self.0.judge_peer(name, inputs(given), reference(right), outputs)
    }
}
