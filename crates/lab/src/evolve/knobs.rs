//! What trials say about knobs.

use indexmap::IndexMap;

use crate::run::{Trial, TrialResult};

/// A knob that made no difference to the machine code wherever it alone was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InertKnob {
    pub knob: String,
    /// How often that was seen.
    pub pairs: usize,
}

/// Looks at every two trials that differ in one knob.
pub fn dead<'t>(trials: impl IntoIterator<Item = &'t Trial>) -> Vec<InertKnob> {
    let compiled: Vec<(&Trial, &str)> = trials
        .into_iter()
        .filter_map(|trial| match &trial.result {
            TrialResult::Timed { code_hash, .. } | TrialResult::Same { code_hash, .. } => {
                Some((trial, code_hash.as_str()))
            }
            TrialResult::Failed { .. } => None,
        })
        .collect();
    // By knob: pairs with the same code, and with different code.
    let mut seen: IndexMap<&str, (usize, usize)> = IndexMap::new();
    for (at, (first, code)) in compiled.iter().enumerate() {
        for (second, other) in &compiled[at + 1..] {
            let mut differ =
                first.knobs.iter().filter(|(knob, value)| second.knobs.get(*knob) != Some(value));
            // Knobs of different sources have nothing to do with each other.
            if let (true, Some((knob, _)), None) =
                (first.source == second.source, differ.next(), differ.next())
            {
                let (same, different) = seen.entry(knob).or_default();
                *(if code == other { same } else { different }) += 1;
            }
        }
    }
    seen.into_iter()
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
            result: TrialResult::Same { as_trial: 0, code_hash: code.to_owned() },
        }
    }

    #[test]
    fn a_knob_is_dead_if_it_never_changed_the_code() {
        let trials = [trial(1, 1, 1, "x"), trial(2, 1, 2, "x"), trial(3, 2, 1, "y"), trial(4, 2, 2, "y")];
        assert_eq!(dead(&trials), [InertKnob { knob: "B".to_owned(), pairs: 2 }]);
        let trials = [trial(1, 1, 1, "x"), trial(2, 1, 2, "x"), trial(3, 2, 1, "y"), trial(4, 2, 2, "z")];
        assert_eq!(dead(&trials), []);
        // Two that differ in both say nothing about either.
        assert_eq!(dead(&[trial(1, 1, 1, "x"), trial(2, 2, 2, "x")]), []);
    }
}
