//! The importance of knobs: how much of the variance between trials each knob explains alone.

use indexmap::IndexMap;
use runlog::RunState;
use schemars::JsonSchema;
use serde::Serialize;
use stats::geometric_mean;

use super::TimeKind;
use super::search::{Scored, scored};

/// With fewer trials, no importance is computed.
const MIN_TRIALS: usize = 6;

/// The importance of a knob and the scores of its values.
#[derive(Debug)]
pub struct Importance<'s> {
    /// The knob's name.
    pub knob: &'s str,
    /// The share of the variance of log time between the knob's values, minus the share that chance alone would give
    /// with as many values (epsilon squared); 0 to 1.
    pub share: f64,
    /// The values that were tried, the fastest first.
    pub values: Vec<Value<'s>>,
}

/// One value of a knob.
#[derive(Debug)]
pub struct Value<'s> {
    /// The value as text.
    pub name: &'s str,
    /// The number of trials with this value.
    pub trials: usize,
    /// Geometric mean of the scores of these trials.
    pub score: f64,
}

/// The importance of every knob with two or more tried values, the most important first. Empty if there are too few
/// trials.
///
/// A search does not choose its trials at random. Two knobs that it changed together share the credit, and a knob that
/// it changed only in good settings looks better than it is. So the result ranks knobs; it is not a prediction.
pub fn importance<'s>(scored: &[Scored<'s>], kind: TimeKind) -> Vec<Importance<'s>> {
    let trials: Vec<Scored<'s>> = scored.iter().copied().filter(|it| it.kind == kind).collect();
    if trials.len() < MIN_TRIALS {
        return Vec::new();
    }
    let mut knobs: Vec<&str> = Vec::new();
    for trial in &trials {
        for knob in trial.trial.knobs.keys() {
            if !knobs.contains(&knob.as_str()) {
                knobs.push(knob);
            }
        }
    }
    let mut found: Vec<Importance<'_>> =
        knobs.into_iter().filter_map(|knob| importance_of(knob, &trials)).collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

/// What a knob is worth according to a search, for documents and terminals.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct KnobWorth {
    /// The knob's name.
    pub knob: String,
    /// The share of the variance of log time that the knob explains alone, from 0 to 1.
    pub share: f64,
    /// The values that were tried, the fastest first.
    pub values: Vec<ValueWorth>,
}

/// What one value of a knob is worth.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ValueWorth {
    /// The value as text.
    pub value: String,
    /// The number of trials with this value.
    pub trials: usize,
    /// Geometric mean of the scores of these trials.
    pub score: f64,
}

/// What each knob of a run's search is worth, the most important first. Empty if too few trials were timed.
pub fn knob_worths(state: &RunState) -> Vec<KnobWorth> {
    let scored = scored(state);
    let worths = TimeKind::ALL.into_iter().flat_map(|kind| importance(&scored, kind));
    let worth = |it: Importance<'_>| KnobWorth {
        knob: it.knob.to_owned(),
        share: it.share,
        values: it
            .values
            .iter()
            .map(|it| ValueWorth { value: it.name.to_owned(), trials: it.trials, score: it.score })
            .collect(),
    };
    worths.map(worth).collect()
}

fn importance_of<'s>(knob: &'s str, trials: &[Scored<'s>]) -> Option<Importance<'s>> {
    let mut groups: IndexMap<&str, Vec<f64>> = IndexMap::new();
    for trial in trials {
        if let Some(value) = trial.trial.knobs.get(knob) {
            groups.entry(value).or_default().push(trial.score);
        }
    }
    if groups.len() < 2 {
        return None;
    }
    let logs: Vec<Vec<f64>> =
        groups.values().map(|scores| scores.iter().map(|score| score.ln()).collect()).collect();
    let mut values: Vec<Value<'_>> = groups
        .iter()
        .filter_map(|(name, scores)| {
            let score = geometric_mean(scores.iter().copied())?;
            Some(Value { name, trials: scores.len(), score })
        })
        .collect();
    values.sort_by(|a, b| b.score.total_cmp(&a.score));
    Some(Importance { knob, share: explained_share(&logs), values })
}

/// The share of the variance that is between groups (epsilon squared).
fn explained_share(groups: &[Vec<f64>]) -> f64 {
    let count: usize = groups.iter().map(Vec::len).sum();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all: Vec<f64> = groups.iter().flatten().copied().collect();
    let centre = mean(&all);
    let total: f64 = all.iter().map(|x| (x - centre).powi(2)).sum();
    let within: f64 = groups
        .iter()
        .map(|group| {
            let centre = mean(group);
            group.iter().map(|x| (x - centre).powi(2)).sum::<f64>()
        })
        .sum();
    // With one trial per group, the knob's effect cannot be separated from chance.
    if count <= groups.len() || total <= f64::EPSILON * count as f64 {
        return 0.0;
    }
    let noise = within / (count - groups.len()) as f64;
    ((total - within - (groups.len() - 1) as f64 * noise) / total).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::testing::{full_log, state_from};

    #[test]
    fn the_explained_share_ranges_from_none_to_all() {
        assert_eq!(explained_share(&[vec![1.0, 1.0, 1.0], vec![2.0, 2.0]]), 1.0);
        assert_eq!(explained_share(&[vec![1.0, 2.0], vec![1.0, 2.0]]), 0.0);
        assert_eq!(explained_share(&[vec![3.0, 3.0], vec![3.0, 3.0]]), 0.0);
        assert_eq!(explained_share(&[vec![1.0], vec![2.0]]), 0.0);
    }

    #[test]
    fn the_share_expected_by_chance_is_subtracted() {
        let share = explained_share(&[vec![0.0, 1.0], vec![2.0, 3.0]]);
        // The means are 0.5 and 2.5 around 1.5. Sum of squares between groups 4, within groups 1 with 2 degrees of
        // freedom, total 5; (4 - 0.5) / 5.
        assert!((share - 0.7).abs() < 1e-12, "{share}");
    }

    #[test]
    fn the_knob_with_the_largest_effect_comes_first() {
        let state = state_from(&full_log());
        let found = importance(&crate::search::scored(&state), TimeKind::Modelled);
        assert_eq!(found[0].knob, "STAGES");
        assert!(found[0].share > 0.5 && found[0].share > 2.0 * found[1].share, "{found:?}");
        assert_eq!(found[0].values[0].name, "3");
        assert!(importance(&crate::search::scored(&state), TimeKind::Measured).is_empty());
    }
}
