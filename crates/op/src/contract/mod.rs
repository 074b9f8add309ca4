//! What an op is made of: its problems, its inputs, its reference, its judgement and its peers.

mod inputs;
mod judgement;
mod peers;
mod problems;
mod reference;

use std::fmt;

use family::SettingError;

pub use inputs::OpInputs;
pub use judgement::{
    Complaint, ExtraTolerance, JudgedRow, Judgement, OpJudgement, Picture, roundings, share_of,
};
pub use peers::{OpPeers, Peer, PeerProblem, Peers, pytorch_script};
pub use problems::{OpProblems, Similarity, SuiteText, Work};
pub use reference::{OpReference, VacuousPart};

/// An op: what is computed, on which inputs, and with which tolerances. Every type that has all the parts is one.
pub trait Op: OpPeers {}

impl<T: OpPeers + ?Sized> Op for T {}

/// A request that cannot be fulfilled. It is refused before anything is compiled or launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why the request is refused.
    pub message: String,
    /// What would be allowed instead.
    pub hint: Option<String>,
    /// The machine lacks something that can be installed.
    pub is_missing: bool,
}

impl Refusal {
    /// Returns a refusal without a hint.
    pub fn new(message: impl fmt::Display) -> Self {
        Refusal { message: message.to_string(), hint: None, is_missing: false }
    }

    /// Returns a refusal because the machine lacks something that can be installed.
    pub fn missing(message: impl fmt::Display) -> Self {
        Refusal { is_missing: true, ..Refusal::new(message) }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl From<SettingError> for Refusal {
    fn from(error: SettingError) -> Self {
        Refusal::new(&error).hint(error.hint())
    }
}
