//! Finds the knobs that have no effect on the machine code.

use indexmap::IndexMap;

use crate::{Trial, TrialResult};

/// A knob that never changed the machine code in trials that differ only in this knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InertKnob {
    /// The knob's name.
    pub knob: String,
    /// The number of such pairs of trials.
    pub pairs: usize,
}

/// Compares all pairs of trials that differ in exactly one knob.
pub fn inert<'t>(trials: impl IntoIterator<Item = &'t Trial>) -> Vec<InertKnob> {
    let compiled: Vec<(&Trial, &str)> = trials
        .into_iter()
        .filter_map(|trial| match &trial.result {
            TrialResult::Timed { code_hash, .. } | TrialResult::Same { code_hash, .. } => {
                Some((trial, code_hash.as_str()))
            }
            TrialResult::Failed { .. } => None,
        })
        .collect();
    // For every knob: the number of pairs with the same code, and with different code.
    let mut counts: IndexMap<&str, (usize, usize)> = IndexMap::new();
    for (at, (first, code)) in compiled.iter().enumerate() {
        for (second, other) in &compiled[at + 1..] {
            let mut differ =
                first.knobs.iter().filter(|(knob, value)| second.knobs.get(*knob) != Some(value));
            // The knobs of different sources are unrelated.
            if let (true, Some((knob, _)), None) =
                (first.source == second.source, differ.next(), differ.next())
            {
                let (same, different) = counts.entry(knob).or_default();
                *(if code == other { same } else { different }) += 1;
            }
        }
    }
    counts
        .into_iter()
        .filter(|(_, (same, different))| *same > 0 && *different == 0)
        .map(|(knob, (pairs, _))| InertKnob { knob: knob.to_owned(), pairs })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(number: u32, a: u32, b: u32, code: &str) -> Trial {
        let knobs = [("A", a), ("B", b)].map(|(name, value)| (name.to_owned(), value.to_string()));
        Trial {
            number,
            candidate: String::new(),
            knobs: knobs.into(),
            parent: None,
            origin: String::new(),
            source: None,
            done_by: None,
            result: TrialResult::Same { as_trial: 0, code_hash: code.to_owned() },
        }
    }

    #[test]
    fn a_knob_that_never_changes_the_code_is_found() {
        let trials = [trial(1, 1, 1, "x"), trial(2, 1, 2, "x"), trial(3, 2, 1, "y"), trial(4, 2, 2, "y")];
        assert_eq!(inert(&trials), [InertKnob { knob: "B".to_owned(), pairs: 2 }]);
        let trials = [trial(1, 1, 1, "x"), trial(2, 1, 2, "x"), trial(3, 2, 1, "y"), trial(4, 2, 2, "z")];
        assert_eq!(inert(&trials), []);
        // Trials that differ in two knobs are not compared.
        assert_eq!(inert(&[trial(1, 1, 1, "x"), trial(2, 2, 2, "x")]), []);
    }
}
