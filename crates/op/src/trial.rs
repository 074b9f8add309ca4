//! The launches by which a kernel is judged.
//!
//! One launch proves little. A kernel may count its launches, cache an answer for inputs it has seen, leave an earlier
//! answer in place, or depend on its addresses. So a trial has several launches on several inputs, each in a different
//! environment, and every launch is judged completely.

use serde::{Deserialize, Serialize};

/// How inputs are drawn. This is plain data, so that another process can draw the same inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InputDraw {
    /// The class of the input values: `normal`, `outliers`.
    pub class: String,
    /// Seed of the values.
    pub seed: u64,
    /// Layout and signs.
    pub way: DrawMode,
}

/// Layout and signs of drawn inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawMode {
    /// The layout for timing ([`crate::OpInputs::timed_inputs`]).
    Timed,
    /// Any layout ([`crate::OpInputs::inputs`]).
    Any,
    /// Every sign is the opposite of that in the ordinary inputs of the seed ([`crate::OpInputs::opposite`]).
    Opposite,
}

impl InputDraw {
    /// Returns a draw in the layout for timing.
    pub fn new(class: &str, seed: u64) -> Self {
        InputDraw { class: class.to_owned(), seed, way: DrawMode::Timed }
    }

    /// Changes the layout or signs of the draw.
    #[must_use]
    pub fn way(self, way: DrawMode) -> Self {
        InputDraw { way, ..self }
    }
}

/// What outputs hold before a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputState {
    /// A pattern that no correct answer contains.
    Poisoned,
    /// What the previous launch wrote.
    Stale,
    /// The answer of the step whose bits must be repeated, with every sign flipped. A kernel that leaves its own
    /// earlier answer in place then leaves a wrong one.
    Turned,
}

/// One launch of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialStep {
    /// Index of its inputs among the trial's inputs.
    pub inputs: usize,
    /// What the outputs hold before it.
    pub outputs: OutputState,
    /// Whether the buffers have other addresses than at the start.
    pub moved: bool,
    /// An earlier step whose output bits it must repeat.
    pub same_as: Option<usize>,
}

impl TrialStep {
    /// The first launch: first inputs, poisoned outputs.
    pub const FIRST: TrialStep =
        TrialStep { inputs: 0, outputs: OutputState::Poisoned, moved: false, same_as: None };

    /// The launches of every case: first inputs; opposite inputs, while the first answer is still in the outputs; and
    /// the first inputs again at other addresses, over the first answer with flipped signs. The last must repeat the
    /// bits of the first.
    pub const USUAL: [TrialStep; 3] = [
        TrialStep::FIRST,
        TrialStep { inputs: 1, outputs: OutputState::Stale, ..TrialStep::FIRST },
        TrialStep { outputs: OutputState::Turned, moved: true, same_as: Some(0), ..TrialStep::FIRST },
    ];

    /// A launch on other inputs at other addresses, with the outputs of the previous launch.
    pub const fn on(inputs: usize) -> TrialStep {
        TrialStep { inputs, outputs: OutputState::Stale, moved: true, same_as: None }
    }

    /// Describes the step in a message: `launch 2, on opposite inputs`.
    pub fn describe(index: usize, step: &TrialStep) -> String {
        let how = match (step.inputs, step.same_as) {
            (0, None) => return format!("launch {}", index + 1),
            (_, Some(_)) => "on the first inputs again, at other addresses",
            (1, None) if !step.moved => "on opposite inputs",
            (_, None) => "on redrawn inputs",
        };
        format!("launch {}, {how}", index + 1)
    }
}

/// Derives a seed for one purpose from the seed of a trial or run.
pub fn derive_seed(seed: u64, purpose: u64) -> u64 {
    random::Random::new(seed).after(purpose).bits()
}
