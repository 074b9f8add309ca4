//! The op trait, and how a kernel of an op's family is run.
//!
//! An [`Op`] has five parts: problems, inputs, reference, judgement and peers. It depends on neither devices nor files. This
//! crate places the buffers of an op on a device ([`Arrangement`]) with guard bands and poison, launches kernels
//! ([`Kernel`]), and returns what each launch did ([`LaunchObservation`]). It also selects the tuned setting for a
//! problem ([`dispatch`]). The workbench (`lab`) depends only on this crate, so a second op needs no change there, and the
//! crate of an op does not depend on the workbench.
//!
//! Every launch of a trial draws its own inputs. Their seeds come from one secret seed:
//!
//! ```
//! use warpsmith_op::derive_seed;
//!
//! assert_ne!(derive_seed(7, 0), derive_seed(7, 1));
//! assert_eq!(derive_seed(7, 1), derive_seed(7, 1));
//! ```

mod arrangement;
mod atomics;
mod check_device;
mod contract;
pub mod cores;
pub mod dispatch;
mod erased;
pub mod error_map;
mod kernel;
mod memory;
pub mod plausible;
mod trial;
pub mod values;

pub use arrangement::{Addresses, Arrangement, Input, Output, TensorShape};
pub use atomics::adds_atomically;
pub use check_device::CheckDevice;
pub use contract::{
    Complaint, ExtraTolerance, JudgedRow, Judgement, Op, OpInputs, OpJudgement, OpPeers, OpProblems,
    OpReference, Peer, PeerProblem, Peers, Picture, Refusal, Similarity, SuiteText, VacuousPart, Work,
    pytorch_script, roundings, share_of,
};
pub use erased::{AnyInputs, AnyOp, AnyProblem, AnyReference, erase};
pub use kernel::{
    Inputs, Kernel, LaunchObservation, LaunchParameters, PreparedLaunch, RunError, SecondInputs,
    launch_geometries,
};
pub use memory::StrayWrite;
pub use trial::{DrawMode, InputDraw, OutputState, TrialStep, derive_seed};
pub use values::{Class, UnknownClass};
