//! The inputs of problems and the right answers to them: dear to make, and the same for every candidate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use op::{InputDraw, Op, Refusal, derived};

use crate::worker::drawn;

/// What the rows that are compared are drawn for, out of the seed of the inputs.
const ROWS: u64 = 1 << 32;

/// A problem's inputs and the right answer.
pub struct InputsWithAnswer<O: Op> {
    pub inputs: O::Inputs,
    pub reference: O::Reference,
}

/// Answers that are kept from one bench to the next, or not at all: a suite's would fill the memory.
pub struct AnswerCache<O: Op> {
    /// By problem and draw.
    kept: Option<Mutex<AnswerMap<O>>>,
}

type AnswerMap<O> = HashMap<(String, InputDraw), Arc<InputsWithAnswer<O>>>;

impl<O: Op> std::fmt::Debug for AnswerCache<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.kept.is_some() { "Answers(kept)" } else { "Answers(not kept)" })
    }
}

impl<O: Op> AnswerCache<O> {
    pub fn kept() -> Self {
        AnswerCache { kept: Some(Mutex::new(HashMap::new())) }
    }

    pub fn not_kept() -> Self {
        AnswerCache { kept: None }
    }

    /// The answer to the problem with these inputs.
    pub(crate) fn to(
        &self,
        op: &O,
        problem: &O::Problem,
        draw: &InputDraw,
    ) -> Result<Arc<InputsWithAnswer<O>>, Refusal> {
        let make = || -> Result<_, Refusal> {
            let inputs = drawn(op, problem, draw)?;
            let sample = derived(draw.seed, ROWS + draw.way as u64);
            let reference = op.reference(problem, &inputs, sample);
            Ok(Arc::new(InputsWithAnswer { inputs, reference }))
        };
        let Some(kept) = &self.kept else { return make() };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (problem.to_string(), draw.clone());
        if let Some(answer) = kept.get(&key) {
            return Ok(Arc::clone(answer));
        }
        let answer = make()?;
        kept.insert(key, Arc::clone(&answer));
        Ok(answer)
    }
}
