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
    PeerProblem, Peers, Picture, Refusal, Similarity, SuiteText, VacuousPart, Work,
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

fn answer<'a, R: 'static>((right, outputs): (&'a AnyReference, &'a [Vec<u8>])) -> (&'a R, &'a [Vec<u8>]) {
    (reference(right), outputs)
}

/// The value in the type of its op. A program that has several ops must give a value back only to the op that made it.
fn own<T>(value: Option<&T>) -> &T {
    value.unwrap_or_else(|| {
        panic!("a value of another op was given to an op that needs `{}`", type_name::<T>())
    })
}

fn erased_problem<P>(problem: P) -> AnyProblem
where
    P: PartialEq + Any + fmt::Debug + fmt::Display + Send + Sync,
{
    AnyProblem(Arc::new(problem))
}

fn erased_inputs(inputs: impl Any + Send + Sync) -> AnyInputs {
    AnyInputs(Box::new(inputs))
}

/// Implements methods by those of the op. `=>` after an argument names the function that gets the op's own value out of
/// it; `=>` after the result names the function that erases the op's own value.
macro_rules! methods {
    ($($method:ident($($argument:ident: $type:ty $(=> $own:ident)?),*) -> $result:ty $(=> $erase:expr)?;)*) => {
        $(fn $method(&self $(, $argument: $type)*) -> $result {
            let result = self.0.$method($($($own)?($argument)),*);
            $(let result = $erase(result);)?
            result
        })*
    };
}

impl<O: Op> OpProblems for Erased<O> {
    type Problem = AnyProblem;

    methods! {
        name() -> &str;
        problems(text: &str) -> Result<Vec<AnyProblem>, Refusal>
            => |found: Result<Vec<_>, _>| Ok(found?.into_iter().map(erased_problem).collect());
        aliases() -> Vec<String>;
        problem_from_fields(fields: &toml::Table) -> Result<AnyProblem, Refusal>
            => |found: Result<_, _>| found.map(erased_problem);
        in_words(of: &AnyProblem => problem) -> String;
        name_help() -> String;
        suites() -> Vec<SuiteText>;
        default_problems() -> Vec<String>;
        small_problem() -> String;
        edge_problems() -> Vec<String>;
        class_problems() -> Vec<String>;
        fuzzed(draw: u64) -> AnyProblem => erased_problem;
        cut(of: &AnyProblem => problem, flops: f64) -> AnyProblem => erased_problem;
        candidate(
            family: &Family,
            preset: Option<&str>,
            knobs: &[(String, String)],
            of: &AnyProblem => problem
        ) -> Result<Candidate, Refusal>;
        sizes(of: &AnyProblem => problem) -> Sizes;
        work(of: &AnyProblem => problem) -> Work;
        matrix_type(of: &AnyProblem => problem) -> Option<&str>;
        similarity(of: &AnyProblem => problem) -> Similarity;
        preferred_families() -> &[&str];
        default_family() -> Option<&str>;
    }
}

impl<O: Op> OpInputs for Erased<O> {
    type Inputs = AnyInputs;

    methods! {
        classes() -> Vec<&str>;
        hard_classes() -> Vec<&str>;
        joined_classes() -> Vec<&str>;
        inputs(of: &AnyProblem => problem, class: &str, seed: u64) -> Result<AnyInputs, Refusal>
            => |drawn: Result<_, _>| drawn.map(erased_inputs);
        timed_inputs(of: &AnyProblem => problem, class: &str, seed: u64) -> Result<AnyInputs, Refusal>
            => |drawn: Result<_, _>| drawn.map(erased_inputs);
        opposite(of: &AnyProblem => problem, to: &AnyInputs => inputs, class: &str, seed: u64)
            -> Result<AnyInputs, Refusal> => |drawn: Result<_, _>| drawn.map(erased_inputs);
        input_names() -> Vec<&str>;
        redraw(of: &AnyProblem => problem, from: &AnyInputs => inputs, which: &str, seed: u64) -> AnyInputs
            => erased_inputs;
        mutated(of: &AnyProblem => problem, from: &AnyInputs => inputs, seed: u64) -> AnyInputs => erased_inputs;
        arrange(family: &Family, of: &AnyProblem => problem, given: &AnyInputs => inputs) -> Arrangement;
        parameters(
            family: &Family,
            of: &AnyProblem => problem,
            given: &AnyInputs => inputs,
            addresses: &Addresses
        ) -> Vec<LaunchParameters>;
    }
}

impl<O: Op> OpReference for Erased<O> {
    type Reference = AnyReference;

    methods! {
        reference(of: &AnyProblem => problem, given: &AnyInputs => inputs, sample: u64)
            -> Result<AnyReference, Refusal> => |right: Result<O::Reference, _>| Ok(AnyReference(Box::new(right?)));
        require_reference() -> Result<(), Refusal>;
        check_is_not_reference(family: &Family) -> Result<(), Refusal>;
        vacuous_part(of: &AnyProblem => problem, seed: u64) -> Result<Option<VacuousPart>, Refusal>;
        limits_of_checks() -> Option<String>;
    }
}

impl<O: Op> OpJudgement for Erased<O> {
    methods! {
        extra_tolerance(family: &Family, of: &AnyProblem => problem, ptx: &str) -> Option<ExtraTolerance>;
        judge(
            extra: Option<&ExtraTolerance>,
            given: &AnyInputs => inputs,
            right: &AnyReference => reference,
            outputs: &[Vec<u8>]
        ) -> Judgement;
        ignored_input(
            extra: Option<&ExtraTolerance>,
            which: &str,
            before: (&AnyReference, &[Vec<u8>]) => answer,
            after: (&AnyReference, &[Vec<u8>]) => answer
        ) -> Option<Complaint>;
        picture(
            candidate: &Candidate,
            extra: Option<&ExtraTolerance>,
            given: &AnyInputs => inputs,
            right: &AnyReference => reference,
            outputs: &[Vec<u8>]
        ) -> Option<Picture>;
    }
}

impl<O: Op> OpPeers for Erased<O> {
    methods! {
        peers() -> Option<Peers>;
        peer_problem(of: &AnyProblem => problem, given: &AnyInputs => inputs) -> PeerProblem;
        judge_peer(
            name: &str,
            given: &AnyInputs => inputs,
            right: &AnyReference => reference,
            outputs: Vec<Vec<u8>>
        ) -> Judgement;
    }
}
