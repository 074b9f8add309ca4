//! What the report says about a run, extracted once.

use runlog::{Row, RunState};

use super::advice::{Bottleneck, bottlenecks};
use super::comparison::{ComparisonTable, comparison_tables};
use super::failures::{Failed, failures};
use super::search::{Node, Scored, TrialCounts, better_than_elites, count_trials, elites, lineage, scored};
use super::words::device;

/// The facts that several sections use. All are extracted from the run's state.
#[derive(Debug)]
pub struct Facts<'s> {
    /// The state of the run.
    pub state: &'s RunState,
    /// The device, in words.
    pub device: String,
    /// The measurements.
    pub rows: &'s [Row],
    /// The comparisons of candidates with baselines, by timer.
    pub tables: Vec<ComparisonTable<'s>>,
    /// The number of trials by result.
    pub counts: TrialCounts,
    /// Every trial with a score, sorted by number.
    pub scored: Vec<Scored<'s>>,
    /// The elites of the search, the best first.
    pub elites: Vec<Scored<'s>>,
    /// Trials that scored more than the best elite and did not become elites, the best first.
    pub better_than_elites: Vec<Scored<'s>>,
    /// The tree of the elites and their ancestors.
    pub lineage: Vec<Node<'s>>,
    /// The bottlenecks of all kernels, the heaviest first.
    pub bottlenecks: Vec<Bottleneck<'s>>,
    /// What failed.
    pub failures: Vec<Failed>,
}

impl<'s> Facts<'s> {
    /// Extracts the facts. `rows` are the measurements of the same state.
    pub fn new(state: &'s RunState, rows: &'s [Row]) -> Self {
        let (elites, scored) = (elites(state), scored(state));
        Facts {
            state,
            device: device(state),
            rows,
            tables: comparison_tables(rows),
            counts: count_trials(state),
            better_than_elites: better_than_elites(&scored, &elites),
            scored,
            lineage: lineage(state, &elites),
            elites,
            bottlenecks: bottlenecks(state, None),
            failures: failures(state),
        }
    }
}
