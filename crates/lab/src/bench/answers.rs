//! A cache of inputs with their references, which are expensive to compute and the same for every candidate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use op::{InputDraw, Op, Refusal, derive_seed};

use crate::trial::draw_inputs;

/// Purpose number of the seed that selects the rows to compare.
const ROWS: u64 = 1 << 32;

/// The inputs of a problem and their reference.
pub struct InputsWithAnswer<O: Op + ?Sized> {
    pub inputs: O::Inputs,
    pub reference: O::Reference,
}

/// A cache of inputs with their references. It keeps them from one bench to the next, or keeps nothing: the references
/// of a whole suite would fill the memory.
pub struct AnswerCache<O: Op + ?Sized> {
    /// Keyed by problem and draw. `None` keeps nothing.
    kept: Option<Mutex<AnswerMap<O>>>,
}

type AnswerMap<O> = HashMap<(String, InputDraw), Arc<InputsWithAnswer<O>>>;

impl<O: Op + ?Sized> std::fmt::Debug for AnswerCache<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.kept.is_some() { "AnswerCache(kept)" } else { "AnswerCache(not kept)" })
    }
}

impl<O: Op + ?Sized> AnswerCache<O> {
    /// Returns a cache that keeps every answer.
    pub fn enabled() -> Self {
        AnswerCache { kept: Some(Mutex::new(HashMap::new())) }
    }

    /// Returns a cache that keeps nothing.
    pub fn disabled() -> Self {
        AnswerCache { kept: None }
    }

    /// Returns the inputs of a draw with their reference. Computes them if they are not in the cache.
    pub(crate) fn to(
        &self,
        op: &O,
        problem: &O::Problem,
        draw: &InputDraw,
    ) -> Result<Arc<InputsWithAnswer<O>>, Refusal> {
        let make = || -> Result<_, Refusal> {
            let inputs = draw_inputs(op, problem, draw)?;
            let sample = derive_seed(draw.seed, ROWS + draw.way as u64);
            let reference = op.reference(problem, &inputs, sample)?;
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
