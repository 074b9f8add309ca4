//! The inputs of problems and the right answers to them: dear to make, and the same for every candidate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use op::Op;

/// A problem's inputs and the right answer.
pub struct Answer<O: Op> {
    pub inputs: O::Inputs,
    pub reference: O::Reference,
}

/// Answers that are kept from one bench to the next, or not at all: a suite's would fill the memory.
pub struct Answers<O: Op> {
    /// By problem and seed.
    kept: Option<Mutex<Kept<O>>>,
}

type Kept<O> = HashMap<(String, u64), Arc<Answer<O>>>;

impl<O: Op> std::fmt::Debug for Answers<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.kept.is_some() { "Answers(kept)" } else { "Answers(not kept)" })
    }
}

impl<O: Op> Answers<O> {
    pub fn kept() -> Self {
        Answers { kept: Some(Mutex::new(HashMap::new())) }
    }

    pub fn not_kept() -> Self {
        Answers { kept: None }
    }

    /// The answer to the problem with the inputs of this seed.
    pub(crate) fn to(&self, op: &O, problem: &O::Problem, seed: u64) -> Arc<Answer<O>> {
        let make = || {
            let inputs = op.timed_inputs(problem, seed);
            let reference = op.reference(problem, &inputs);
            Arc::new(Answer { inputs, reference })
        };
        let Some(kept) = &self.kept else { return make() };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(kept.entry((problem.to_string(), seed)).or_insert_with(make))
    }
}
