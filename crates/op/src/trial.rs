//! The launches a kernel is judged by.
//!
//! One launch proves little. A kernel may count its launches, keep an answer for inputs it has seen, leave an earlier
//! answer in place, or look at where its memory lies. So a trial is several launches on several inputs, each under other
//! circumstances, and every one of them is judged in full.

use serde::{Deserialize, Serialize};

/// How inputs are drawn. It is plain data, so that another process can draw the same inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InputDraw {
    pub class: String,
    pub seed: u64,
    pub way: DrawMode,
}

/// What is done with the numbers of a class and a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawMode {
    /// Laid out as kernels are timed ([`crate::Op::timed_inputs`]).
    Timed,
    /// Laid out in any way ([`crate::Op::inputs`]).
    Any,
    /// Every sign is the opposite of that in the ordinary inputs of the seed ([`crate::Op::opposite`]).
    Opposite,
}

impl InputDraw {
    pub fn new(class: &str, seed: u64) -> Self {
        InputDraw { class: class.to_owned(), seed, way: DrawMode::Timed }
    }

    #[must_use]
    pub fn way(self, way: DrawMode) -> Self {
        InputDraw { way, ..self }
    }
}

/// What outputs hold before a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputState {
    /// A pattern no right answer contains.
    Poisoned,
    /// Whatever the launch before left there.
    Stale,
    /// The answer of the step whose bits are to be repeated, with every sign turned. A kernel that leaves what looks like
    /// its own answer in place leaves a wrong one.
    Turned,
}

/// One launch of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialStep {
    /// Which of the trial's inputs it gets.
    pub inputs: usize,
    /// What the outputs hold before it.
    pub outputs: OutputState,
    /// The buffers lie at other addresses than at the start.
    pub moved: bool,
    /// An earlier step whose output bits it must repeat.
    pub same_as: Option<usize>,
}

impl TrialStep {
    pub const FIRST: TrialStep =
        TrialStep { inputs: 0, outputs: OutputState::Poisoned, moved: false, same_as: None };

    /// What every kernel is asked on every case: an answer; an answer to the opposite inputs while the first answer is
    /// still in the outputs; and the first answer again, bit by bit, at other addresses and over that answer with its
    /// signs turned.
    pub const USUAL: [TrialStep; 3] = [
        TrialStep::FIRST,
        TrialStep { inputs: 1, outputs: OutputState::Stale, ..TrialStep::FIRST },
        TrialStep { outputs: OutputState::Turned, moved: true, same_as: Some(0), ..TrialStep::FIRST },
    ];

    /// A launch on inputs of its own, with the outputs of the launch before it.
    pub const fn on(inputs: usize) -> TrialStep {
        TrialStep { inputs, outputs: OutputState::Stale, moved: true, same_as: None }
    }

    /// What the step is, for a message: `launch 2, on opposite inputs`.
    pub fn describe(index: usize, step: &TrialStep) -> String {
        let how = match (step.inputs, step.same_as) {
            (0, None) => return format!("launch {}", index + 1),
            (_, Some(_)) => "on the first inputs again, at other addresses",
            (1, None) if !step.moved => "on opposite inputs",
            (_, None) => "on inputs drawn anew",
        };
        format!("launch {}, {how}", index + 1)
    }
}

/// A seed for one purpose out of the seed of a trial or run.
pub fn derived(seed: u64, purpose: u64) -> u64 {
    random::Random::new(seed).after(purpose).bits()
}
