//! Statistics of timings: what a set of samples says, and what two sets say about each other.
//!
//! Everything starts from [`Samples`]: times that are finite and above zero, in the order they were taken.
//!
//! * [`Summary::from_samples`]: p50, p90, p95, p99, mean, standard deviation, and the bootstrap interval of the median;
//! * [`Blocks`]: how the samples of several processes lie in one series, and [`Typical`]: what they come to;
//! * [`Paired`]: two subjects measured in turns (ABBA). [`Paired::speedup`] is `baseline / candidate`, above 1 where
//!   the candidate is faster, with its interval over whole blocks, so that a drift both went through cancels;
//! * [`rank_test`]: Mann-Whitney U, and Cliff's delta from it;
//! * [`control`]: a subject against itself, one process against its others (A/A);
//! * [`compare`]: all of that and a [`Verdict`], held against the [`NoiseFloor`] of the two that are compared;
//! * [`Between`]: how much processes that run the same thing differ, which no samples of one of them can say, and
//!   [`Known`]: intervals with that in them, which hold for the next run;
//! * [`Stopping`]: when to stop taking samples, and why;
//! * [`geometric_mean`] and [`Standing`]: many speedups as one, in a word.
//!
//! ```
//! use warpsmith_stats::{NoiseFloor, Paired, Samples, Summary, Verdict, compare};
//!
//! # fn main() -> Result<(), warpsmith_stats::SampleError> {
//! // Nanoseconds in the order taken, by turns A B B A: two of each per block.
//! let sdpa = Samples::new((0..40).map(|i| 20_000.0 + f64::from(i * 7 % 11)).collect())?;
//! let again = Samples::new((0..40).map(|i| 20_000.0 + f64::from(i * 5 % 11)).collect())?;
//! let ours = Samples::new((0..40).map(|i| 10_000.0 + f64::from(i * 3 % 11)).collect())?;
//! let seed = 1;
//!
//! let control = Paired::new(&sdpa, &again, 2)?.speedup(seed); // A against A
//! let tick = 32.0 / sdpa.median(); // what the timer can tell apart
//! let floor = NoiseFloor::from_control(&control, tick);
//! let comparison = compare(&Paired::new(&sdpa, &ours, 2)?, floor, seed);
//! assert_eq!(comparison.verdict, Verdict::Faster);
//! assert!(comparison.speedup.interval.low > 1.99);
//! assert!(Summary::from_samples(&ours, seed).p90 < 10_011.0);
//! # Ok(()) }
//! ```
//!
//! The unit of a sample is the caller's (the run log has nanoseconds); nothing here depends on it. The same samples
//! and seed give the same answer everywhere.

mod between;
mod bootstrap;
mod normal;
mod paired;
mod processes;
mod rank;
mod samples;
#[cfg(test)]
mod simulation;
mod standing;
mod stopping;
mod summary;
mod verdict;

pub use between::{Between, Known};
pub use bootstrap::{Interval, RESAMPLES, median_interval};
pub use paired::{Paired, Speedup, control};
pub use processes::{Blocks, Typical};
pub use rank::{Method, RankTest, rank_test};
pub use samples::{SampleError, Samples};
pub use standing::{Standing, geometric_mean};
pub use stopping::{Progress, StopReason, Stopping};
pub use summary::{Summary, percentile};
pub use verdict::{Comparison, INDIFFERENT, NoiseFloor, SIGNIFICANT, Verdict, compare};
