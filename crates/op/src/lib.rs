//! What an op is to the workbench, and how a kernel of one of its families is run.
//!
//! An [`Op`] knows its problems, inputs, the right answer and how right is right enough; it knows neither devices nor
//! files. This crate knows how to put what an op asks for on a device ([`Arrangement`]), with guard bands and poison,
//! how to launch it ([`Kernel`]) and what to bring back ([`LaunchObservation`]); and which of a family's tuned settings is the one
//! for a problem ([`tuned`]). The workbench (`lab`) is written against these alone, so that a second op needs no change
//! there; an op's own crate needs no workbench.

mod arrangement;
mod check_device;
mod contract;
mod kernel;
mod memory;
mod trial;
pub mod tuned;

pub use arrangement::{Addresses, Arrangement, Input, Output};
pub use check_device::CheckDevice;
pub use contract::{Complaint, Judgement, Op, PeerProblem, Peers, Picture, Refusal, SuiteText, Work};
pub use kernel::{Inputs, Kernel, LaunchObservation, PreparedLaunch, RunError, SecondInputs};
pub use memory::StrayWrite;
pub use trial::{DrawMode, InputDraw, OutputState, TrialStep, derived};
