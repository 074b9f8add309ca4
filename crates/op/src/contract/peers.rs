//! Implementations of an op by other projects.

use crate::arrangement::Input;
use crate::contract::{Judgement, OpJudgement};

/// Implementations of an op by other projects, to compare our kernels with.
#[derive(Clone, Debug)]
pub struct Peers {
    /// The implementations.
    pub all: Vec<Peer>,
    /// A Python program that runs any of them and uses the protocol of the workers (`lab::worker`). The code of the
    /// channel replaces its line `# WIRE` (`subprocess::wire::with_python`).
    pub script: String,
}

/// One implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The project that provides it: `pytorch`.
    pub package: String,
    /// Its name: `flash`, `cudnn`.
    pub name: String,
    /// The Python distributions of which one must be installed in addition to PyTorch. Empty if PyTorch has it.
    pub distributions: Vec<String>,
    /// The environment variable with the path of a library that can be used instead of a distribution.
    pub library: Option<String>,
}

impl Peer {
    /// An implementation that is part of PyTorch, or a function on its tensors.
    pub fn of_pytorch(name: &str) -> Self {
        Peer {
            package: "pytorch".to_owned(),
            name: name.to_owned(),
            distributions: Vec::new(),
            library: None,
        }
    }

    /// Whether the environment names the library of the peer.
    pub fn has_library(&self) -> bool {
        let named = self.library.as_ref().and_then(std::env::var_os);
        named.is_some_and(|path| !path.is_empty())
    }
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

    /// Compares the outputs of the peer with this name with the reference. A peer with a wrong answer cannot be a
    /// baseline.
    fn judge_peer(
        &self,
        name: &str,
        inputs: &Self::Inputs,
        reference: &Self::Reference,
        outputs: Vec<Vec<u8>>,
    ) -> Judgement;
}
