//! The results of a search: scores of trials, elites and their ancestry.

use std::collections::{BTreeMap, BTreeSet};

use runlog::{RunState, Trial, TrialResult};

use super::TimeKind;

/// A trial with a score: its own, or that of the earlier trial with the same machine code.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'s> {
    /// The trial.
    pub trial: &'s Trial,
    /// Geometric mean of the speedups over the search's baseline.
    pub score: f64,
    /// How its times were obtained.
    pub kind: TimeKind,
    /// Whether the score is that of an earlier trial.
    pub is_copy: bool,
}

/// The number of trials by result, without the baseline (trial 0).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TrialCounts {
    /// Trials with a time.
    pub timed: usize,
    /// Trials with the machine code of an earlier one.
    pub same: usize,
    /// Trials that failed.
    pub failed: usize,
}

impl TrialCounts {
    /// The number of all trials.
    pub fn all(&self) -> usize {
        self.timed + self.same + self.failed
    }
}

/// Counts the trials by result.
pub fn count_trials(state: &RunState) -> TrialCounts {
    let mut counts = TrialCounts::default();
    for trial in state.trials.values().filter(|trial| trial.number > 0) {
        match trial.result {
            TrialResult::Timed { .. } => counts.timed += 1,
            TrialResult::Same { .. } => counts.same += 1,
            TrialResult::Failed { .. } => counts.failed += 1,
        }
    }
    counts
}

/// Every trial with a score, sorted by number.
pub fn scored(state: &RunState) -> Vec<Scored<'_>> {
    let mut all: Vec<Scored<'_>> = state.trials.values().filter_map(|trial| score(state, trial)).collect();
    all.sort_by_key(|scored| scored.trial.number);
    all
}

fn score<'s>(state: &'s RunState, trial: &'s Trial) -> Option<Scored<'s>> {
    let mut source = trial;
    // The number must decrease in every step, so the loop ends for any log.
    while let TrialResult::Same { as_trial, .. } = source.result {
        source = state.trials.get(&as_trial).filter(|earlier| earlier.number < source.number)?;
    }
    let TrialResult::Timed { score, problems, .. } = &source.result else { return None };
    let modelled = problems.iter().any(|it| it.time.is_modelled());
    let kind = if modelled { TimeKind::Modelled } else { TimeKind::Measured };
    let is_copy = source.number != trial.number;
    (score.is_finite() && *score > 0.0).then_some(Scored { trial, score: *score, kind, is_copy })
}

/// The elites, the best first, at most as many as the search keeps.
pub fn elites(state: &RunState) -> Vec<Scored<'_>> {
    let count = state.search.as_ref().map_or(usize::MAX, |search| search.elites as usize);
    let best = runlog::elites::best(state.trials.values(), count);
    best.into_iter().filter_map(|timed| score(state, timed.trial)).collect()
}

/// Trials with a higher score than the best elite of their kind, the best first. They gained too little over their
/// parents to become elites ([`runlog::elites::joins`]), so they were not checked with fresh inputs.
pub fn better_than_elites<'s>(scored: &[Scored<'s>], elites: &[Scored<'s>]) -> Vec<Scored<'s>> {
    let best = |kind| elites.iter().find(|elite| elite.kind == kind).map(|elite| elite.score);
    let is_better = |it: &&Scored<'s>| !it.is_copy && best(it.kind).is_some_and(|best| it.score > best);
    let mut better: Vec<Scored<'s>> = scored.iter().filter(is_better).copied().collect();
    better.sort_by(|a, b| b.score.total_cmp(&a.score));
    better
}

/// Why the best trial is not the best elite; `None` if it is.
pub fn elite_rule(better: &[Scored<'_>], elites: &[Scored<'_>]) -> Option<String> {
    let (best, elite) = (better.first()?, elites.first()?);
    let parent = best.trial.parent.map_or(String::new(), |parent| format!(" (#{parent})"));
    Some(format!(
        "Trial #{} ({}) scored {:.3}x, more than the best elite, #{} with {:.3}x. An elite must be at least {:.0}% faster \
         than its parent{parent} and slower on fewer than two problems; only elites are checked with fresh inputs, so \
         the search recommends #{}.",
        best.trial.number,
        best.trial.candidate,
        best.score,
        elite.trial.number,
        elite.score,
        100.0 * (runlog::elites::GAIN - 1.0),
        elite.trial.number,
    ))
}

/// Why the best trial of a run is not its best elite; `None` if it is.
pub fn better_trial(state: &RunState) -> Option<String> {
    let elites = elites(state);
    elite_rule(&better_than_elites(&scored(state), &elites), &elites)
}

/// A trial in the tree of the elites and their ancestors.
#[derive(Debug)]
pub struct Node<'s> {
    /// The trial.
    pub trial: &'s Trial,
    /// Its score; `None` if it has none.
    pub score: Option<f64>,
    /// The number of ancestors.
    pub depth: usize,
    /// The index of its parent in the list.
    pub parent: Option<usize>,
    /// Its rank among the elites, from 1.
    pub rank: Option<usize>,
    /// The knobs that differ from its parent's; for a root, the name of its candidate.
    pub change: String,
}

/// The tree of the elites and their ancestors, parents before children.
pub fn lineage<'s>(state: &'s RunState, elites: &[Scored<'s>]) -> Vec<Node<'s>> {
    let mut members: BTreeSet<u32> = BTreeSet::new();
    for elite in elites {
        let mut next = Some(elite.trial);
        while let Some(trial) = next.filter(|trial| members.insert(trial.number)) {
            next = parent(state, trial);
        }
    }
    let mut children: BTreeMap<Option<u32>, Vec<&Trial>> = BTreeMap::new();
    for trial in members.iter().filter_map(|number| state.trials.get(number)) {
        children.entry(parent(state, trial).map(|it| it.number)).or_default().push(trial);
    }
    let mut nodes: Vec<Node<'_>> = Vec::new();
    // A stack of the trials that are not in the list yet.
    let mut stack: Vec<(&Trial, usize, Option<usize>)> =
        children.get(&None).into_iter().flatten().rev().map(|trial| (*trial, 0, None)).collect();
    while let Some((trial, depth, parent_index)) = stack.pop() {
        let index = nodes.len();
        let rank = elites.iter().position(|elite| elite.trial.number == trial.number).map(|it| it + 1);
        nodes.push(Node {
            trial,
            score: score(state, trial).map(|scored| scored.score),
            depth,
            parent: parent_index,
            rank,
            change: parent(state, trial).map_or(trial.candidate.clone(), |parent| change(parent, trial)),
        });
        let next = children.get(&Some(trial.number)).into_iter().flatten().rev();
        stack.extend(next.map(|child| (*child, depth + 1, Some(index))));
    }
    nodes
}

/// The trial that this one was made from. A parent must have a smaller number than its child; other parents are
/// ignored.
fn parent<'s>(state: &'s RunState, trial: &Trial) -> Option<&'s Trial> {
    trial.parent.and_then(|number| state.trials.get(&number)).filter(|parent| parent.number < trial.number)
}

/// The knobs that differ, with an arrow from the old to the new value.
fn change(parent: &Trial, child: &Trial) -> String {
    let changes: Vec<String> = child
        .knobs
        .iter()
        .filter_map(|(knob, value)| {
            let before = parent.knobs.get(knob)?;
            (before != value).then(|| format!("{knob} {before}\u{2192}{value}"))
        })
        .collect();
    if changes.is_empty() { child.candidate.clone() } else { changes.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::testing::{full_log, state_from};

    #[test]
    fn elites_are_sorted_by_score() {
        let state = state_from(&full_log());
        let elites = elites(&state);
        assert_eq!(elites.len(), state.search.as_ref().map_or(0, |search| search.elites as usize));
        assert!(elites.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }

    #[test]
    fn a_better_trial_that_is_no_elite_is_explained() {
        let mut state = state_from(&full_log());
        assert_eq!(elite_rule(&better_than_elites(&scored(&state), &elites(&state)), &elites(&state)), None);
        let best = elites(&state)[0].score;
        if let Some(TrialResult::Timed { score, elite, .. }) =
            state.trials.get_mut(&12).map(|trial| &mut trial.result)
        {
            (*score, *elite) = (best * 1.01, false);
        }
        let (scored, elites) = (scored(&state), elites(&state));
        let better = better_than_elites(&scored, &elites);
        assert_eq!(better.iter().map(|it| it.trial.number).collect::<Vec<_>>(), [12]);
        let words = elite_rule(&better, &elites).unwrap();
        assert!(
            words.contains("#12") && words.contains("at least 3% faster than its parent (#10)"),
            "{words}"
        );
    }

    #[test]
    fn the_tree_contains_every_elite_with_parents_first() {
        let state = state_from(&full_log());
        let nodes = lineage(&state, &elites(&state));
        for (place, node) in nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                assert!(parent < place && nodes[parent].depth + 1 == node.depth);
                assert_eq!(node.trial.parent, Some(nodes[parent].trial.number));
            }
        }
        let ranks: BTreeSet<usize> = nodes.iter().filter_map(|node| node.rank).collect();
        assert_eq!(ranks, (1..=elites(&state).len()).collect());
        assert!(nodes.iter().any(|node| node.change.contains('\u{2192}')));
    }

    #[test]
    fn a_log_with_cyclic_parents_gives_a_tree() {
        let mut state = state_from(&full_log());
        let last = *state.trials.keys().max().unwrap();
        for trial in state.trials.values_mut() {
            trial.parent = Some(last);
            if let TrialResult::Same { as_trial, .. } = &mut trial.result {
                *as_trial = trial.number;
            }
        }
        let nodes = lineage(&state, &elites(&state));
        assert!(nodes.iter().all(|node| node.depth == 0));
        assert!(scored(&state).iter().all(|scored| !scored.is_copy));
    }
}
