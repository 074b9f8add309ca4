//! What is searched, and how long.

use family::Family;
use gpu::device::Device;
use search::strategy::Entry;

use super::proposer::Proposer;
use crate::run::Timer;
use crate::stats::Stopping;
use crate::worker::Limits;

#[derive(Clone, Debug)]
pub struct EvolvePlan<'f, P> {
    pub device: Device,
    pub family: &'f Family,
    /// The preset everything is compared with, and the knobs set on top of it.
    pub baseline: Option<String>,
    pub baseline_knobs: Vec<(String, String)>,
    pub problems: Vec<P>,
    pub strategy: Entry,
    pub proposer: Proposer,
    /// Candidates that are evaluated, right or wrong. What turns out to be one seen before is free, unless a proposer
    /// was asked for it: its answers count, whatever becomes of them.
    pub budget: u32,
    pub elites: usize,
    /// Candidates that are compiled ahead of the one being evaluated.
    pub ahead: usize,
    pub seed: u64,
    /// What inputs, compared rows and circumstances are drawn from. No proposer may know it.
    pub secret: u64,
    pub timer: Timer,
    pub stopping: Stopping,
    pub warmup: u32,
    pub limits: Limits,
}

/// Where a search stands, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    pub evaluated: u32,
    pub budget: u32,
    /// Right and timed.
    pub valid: u32,
    /// Compiled to something seen before.
    pub same: u32,
    pub elites: usize,
    /// The best so far: its name and its speedup over the baseline.
    pub best: Option<(String, f64)>,
}
