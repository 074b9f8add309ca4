//! Implementations of an op by other projects.

use crate::arrangement::Input;
use crate::contract::{Judgement, OpJudgement};

/// Implementations of an op by other projects, to compare our kernels with.
#[derive(Clone, Debug)]
pub struct Peers {
    /// The project that provides them: `pytorch`.
    pub package: String,
    /// The names of the implementations: `flash`, `cudnn`.
    pub names: Vec<String>,
    /// A Python program that runs any of them and uses the protocol of the workers (`lab::worker`).
    pub script: String,
}

/// The program that runs PyTorch functions as peers. `problem` is the op's own part of it: a class `Problem` in Python.
pub fn pytorch_script(problem: &str) -> String {
    include_str!("../peer.py").replace("# PROBLEM\n", problem)
}

/// A problem in the format of a peer's script.
#[derive(Clone, Debug)]
pub struct PeerProblem {
    /// The sizes and types of the problem, as a JSON object for the script.
    pub fields: serde_json::Value,
    /// The input tensors with the bytes that the script loads.
    pub inputs: Vec<Input>,
    /// Conversion of the inputs that is not timed, as text. Empty if peers get the same inputs as kernels.
    pub untimed_conversion: &'static str,
}

/// The peers of an op.
pub trait OpPeers: OpJudgement {
    /// The peers of the op; `None` if none are known.
    fn peers(&self) -> Option<Peers>;

    /// Converts a problem and its inputs to the format of the peers.
    fn peer_problem(&self, problem: &Self::Problem, inputs: &Self::Inputs) -> PeerProblem;

    /// Compares a peer's outputs with the reference. A peer with a wrong answer cannot be a baseline.
    fn judge_peer(
        &self,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: Vec<Vec<u8>>,
    ) -> Judgement;
}
