//! The plan of a search: what is searched, and with which budget.

use family::Family;
use gpu::device::Device;
use runlog::Timer;
use search::strategies::Entry;
use stats::Stopping;

use super::proposer::Proposer;
use crate::worker::Limits;

/// What is searched, and with which budget.
#[derive(Clone, Debug)]
pub struct EvolvePlan<'f, P> {
    /// The device that candidates run on.
    pub device: Device,
    /// The searched family.
    pub family: &'f Family,
    /// The preset that candidates are compared with; `None` for the defaults.
    pub baseline: Option<String>,
    /// Knobs of the baseline that override its preset.
    pub baseline_knobs: Vec<(String, String)>,
    /// The problems that every candidate is timed on.
    pub problems: Vec<P>,
    /// The search strategy.
    pub strategy: Entry,
    /// What chooses the candidates: the strategy or an external proposer.
    pub proposer: Proposer,
    /// How many candidates are evaluated, right or wrong. A duplicate of an earlier candidate does not count, but every
    /// answer of an external proposer does.
    pub budget: u32,
    /// How many elites are kept.
    pub elites: usize,
    /// How many candidates are compiled ahead of the one that is evaluated.
    pub ahead: usize,
    /// The seed of the strategy.
    pub seed: u64,
    /// The seed of inputs, compared rows and launch conditions. Proposers must not know it.
    pub secret: u64,
    /// How candidates are timed.
    pub timer: Timer,
    /// When enough samples are taken.
    pub stopping: Stopping,
    /// Launches before the first sample.
    pub warmup: u32,
    /// Limits of the worker processes.
    pub limits: Limits,
}

/// The progress of a search, for display.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Candidates that count against the budget.
    pub evaluated: u32,
    /// The budget.
    pub budget: u32,
    /// Candidates that passed their check and were timed.
    pub valid: u32,
    /// Candidates that compiled to the machine code of an earlier one.
    pub same: u32,
    /// The current number of elites.
    pub elites: usize,
    /// The best candidate so far: its name and its speedup over the baseline.
    pub best: Option<(String, f64)>,
}
