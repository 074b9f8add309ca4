//! `evolve`: searches a family's settings for the fastest that is right.
//!
//! A [`EvolvePlan`] says what is searched and how long. [`run`] asks a strategy (crate `search`) for settings and takes each
//! through the same stages, in this order: constraints (settings that break one are not in the [`space`] at all),
//! compile (in parallel, ahead of the evaluations), identical-binary check, correctness, timing. The last two happen
//! in worker processes, as in a bench, next to the setting that everything is compared with. Every candidate is one
//! [`Trial`](crate::run::Trial) in the run's log; what the search knows is what those say, so a run that was stopped
//! goes on by playing its trials again.
//!
//! Instead of a strategy a [`Proposer`] from outside may say what to try: it is shown a prompt and answers with knobs or
//! with a source of its own. Every exchange is in the log. Such a source is a stranger's: it is screened, compiled
//! in a process of its own and run under all checkers of the virtual GPU before it goes the way of the others.
//!
//! * [`elites`]: who is kept;
//! * [`knobs`]: what the trials say about knobs, among it which are dead;
//! * [`tuned`]: what a search has for the table of picks that a library reads.

mod driver;
pub mod elites;
mod evaluator;
pub mod knobs;
mod plan;
mod proposer;
pub mod space;
pub mod tuned;
mod untrusted;

pub use driver::{EvolveError, run};
pub use plan::{EvolvePlan, Progress};
pub use proposer::{Endpoint, ExternalProposer, Information, Proposer, ProposerTransport, redact};
