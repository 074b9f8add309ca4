//! `evolve`: searches a family's settings for the fastest correct one.
//!
//! An [`EvolvePlan`] defines the search and its budget. [`run`] asks a strategy (crate `search`) for settings and
//! takes each of them through the same stages: constraints (the [`space`] contains only settings that satisfy them),
//! compilation (in parallel, ahead of the evaluation), the identical-binary check, correctness, timing. The last two
//! stages run in worker processes beside the baseline, as in a bench. Every candidate is one
//! [`Trial`](runlog::Trial) in the run's log. The search keeps no other state, so a stopped run is resumed by
//! replaying its trials.
//!
//! An external [`Proposer`] can replace the strategy: it reads a prompt and answers with knobs or with a source. Every
//! exchange is in the log. Proposed sources are untrusted: each is screened, compiled in a worker process and run
//! under all checkers of the virtual GPU before it goes through the usual stages.
//!
//! Workers of a fleet can do these stages ([`serve_fleet`]). The head decides in the order of the search what becomes of
//! their results, so the result of a search does not depend on the number of its workers.
//!
//! * [`picks`]: extracts the entries for the tuned table that a library reads.

mod driver;

mod error;
mod evaluator;
pub mod picks;
mod plan;
mod proposer;
mod remote;
pub mod space;
mod untrusted;

pub use driver::run;
pub use error::EvolveError;
pub use plan::{EvolvePlan, Progress};
pub use proposer::{
    Endpoint, ExternalProposer, Information, Prompt, Proposer, ProposerProgram, ProposerTransport, redact,
};
pub use remote::serve_fleet;
