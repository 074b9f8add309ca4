//! What a search came to: elites, where they came from, how the best one grew.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::{RunState, Trial, TrialResult};

use super::Kind;

/// A trial whose time is known: its own, or that of the earlier trial it is the same machine code as.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'s> {
    pub trial: &'s Trial,
    /// Geometric mean of the speedups over the search's baseline.
    pub score: f64,
    pub kind: Kind,
    /// Not timed itself.
    pub is_copy: bool,
}

/// What became of the trials. The baseline, number 0, was given and not tried.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TrialCounts {
    pub timed: usize,
    pub same: usize,
    pub failed: usize,
}

impl TrialCounts {
    pub fn all(&self) -> usize {
        self.timed + self.same + self.failed
    }
}

pub fn tally(state: &RunState) -> TrialCounts {
    let mut tally = TrialCounts::default();
    for trial in state.trials.values().filter(|trial| trial.number > 0) {
        match trial.result {
            TrialResult::Timed { .. } => tally.timed += 1,
            TrialResult::Same { .. } => tally.same += 1,
            TrialResult::Failed { .. } => tally.failed += 1,
        }
    }
    tally
}

/// Every trial with a time, by number.
pub fn scored(state: &RunState) -> Vec<Scored<'_>> {
    let mut all: Vec<Scored<'_>> = state.trials.values().filter_map(|trial| score(state, trial)).collect();
    all.sort_by_key(|scored| scored.trial.number);
    all
}

fn score<'s>(state: &'s RunState, trial: &'s Trial) -> Option<Scored<'s>> {
    let mut source = trial;
    // An earlier trial has a smaller number, so this ends, whatever a log says.
    while let TrialResult::Same { as_trial, .. } = source.result {
        source = state.trials.get(&as_trial).filter(|earlier| earlier.number < source.number)?;
    }
    let TrialResult::Timed { score, problems, .. } = &source.result else { return None };
    let modelled = problems.iter().any(|it| it.time.is_modelled());
    let kind = if modelled { Kind::Modelled } else { Kind::Measured };
    let is_copy = source.number != trial.number;
    (score.is_finite() && *score > 0.0).then_some(Scored { trial, score: *score, kind, is_copy })
}

/// The elites, the best first: as many as the search was to keep.
pub fn elites(state: &RunState) -> Vec<Scored<'_>> {
    let count = state.search.as_ref().map_or(usize::MAX, |search| search.elites as usize);
    let best = crate::evolve::elites::best(state.trials.values(), count);
    best.into_iter().filter_map(|timed| score(state, timed.trial)).collect()
}

/// A trial in the tree of the elites and those they were made from.
#[derive(Debug)]
pub struct Node<'s> {
    pub trial: &'s Trial,
    pub score: Option<f64>,
    pub depth: usize,
    /// Its parent's place in the list.
    pub parent: Option<usize>,
    /// Its rank among the elites, from 1.
    pub rank: Option<usize>,
    /// What was changed of its parent; of a root, its own name.
    pub change: String,
}

/// The elites' family tree, parents before children.
pub fn lineage(state: &RunState) -> Vec<Node<'_>> {
    let elites = elites(state);
    let mut members: BTreeSet<u32> = BTreeSet::new();
    for elite in &elites {
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
    // What is still to be placed, the next one last.
    let mut open: Vec<(&Trial, usize, Option<usize>)> =
        children.get(&None).into_iter().flatten().rev().map(|trial| (*trial, 0, None)).collect();
    while let Some((trial, depth, above)) = open.pop() {
        let place = nodes.len();
        let rank = elites.iter().position(|elite| elite.trial.number == trial.number).map(|it| it + 1);
        nodes.push(Node {
            trial,
            score: score(state, trial).map(|scored| scored.score),
            depth,
            parent: above,
            rank,
            change: parent(state, trial).map_or(trial.candidate.clone(), |parent| change(parent, trial)),
        });
        let below = children.get(&Some(trial.number)).into_iter().flatten().rev();
        open.extend(below.map(|child| (*child, depth + 1, Some(place))));
    }
    nodes
}

/// The trial it was made from. Parents come before their children; a log that says otherwise gets no tree.
fn parent<'s>(state: &'s RunState, trial: &Trial) -> Option<&'s Trial> {
    trial.parent.and_then(|number| state.trials.get(&number)).filter(|parent| parent.number < trial.number)
}

/// `STAGES 2 to 3`: the knobs that differ.
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
    use crate::testing::{a_full_log, folded};

    #[test]
    fn elites_are_the_best_that_were_kept() {
        let state = folded(&a_full_log());
        let elites = elites(&state);
        assert_eq!(elites.len(), state.search.as_ref().map_or(0, |search| search.elites as usize));
        assert!(elites.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }

    #[test]
    fn the_tree_has_parents_before_children_and_every_elite() {
        let state = folded(&a_full_log());
        let nodes = lineage(&state);
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
    fn a_log_with_parents_in_a_circle_still_ends() {
        let mut state = folded(&a_full_log());
        let last = *state.trials.keys().max().unwrap();
        for trial in state.trials.values_mut() {
            trial.parent = Some(last);
            if let TrialResult::Same { as_trial, .. } = &mut trial.result {
                *as_trial = trial.number;
            }
        }
        let nodes = lineage(&state);
        assert!(nodes.iter().all(|node| node.depth == 0));
        assert!(scored(&state).iter().all(|scored| !scored.is_copy));
    }
}
