//! Statistics of timings: descriptions of one set of samples and comparisons of two sets.
//!
//! Everything starts with [`Samples`]: finite times above zero, in the order in which they were taken.
//!
//! * [`Summary::from_samples`]: p50, p90, p95, p99, mean, standard deviation, and the bootstrap interval of the
//!   median;
//! * [`Blocks`]: the order of the samples of several processes in one series, and [`ProcessMean`]: the time over all of
//!   them;
//! * [`Paired`]: two subjects measured in turns (ABBA). [`Paired::speedup`] is `baseline / candidate`, above 1 if the
//!   candidate is faster, with an interval over whole blocks, so that a common drift cancels;
//! * [`rank_test`]: Mann-Whitney U with Cliff's delta;
//! * [`control`]: a subject compared with itself, one process with its others (A/A);
//! * [`compare`]: all of the above and a [`Verdict`], which uses the [`NoiseFloor`] of the two subjects;
//! * [`ProcessVariation`]: the variation between processes that run the same code, which samples of one process cannot show,
//!   and [`SubjectVariation`]: intervals that include it and therefore cover the next run;
//! * [`Stopping`]: when and why sampling stops;
//! * [`geometric_mean`] and [`Rating`]: many speedups as one number, and a word for it.
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
//! The caller chooses the unit of a sample (the run log has nanoseconds); nothing here depends on it. The same
//! samples and seed give the same result on every machine.

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

pub use between::{ProcessVariation, SubjectVariation};
pub use bootstrap::{Interval, RESAMPLES, median_interval};
pub use paired::{Paired, Speedup, control};
pub use processes::{Blocks, ProcessMean};
pub use rank::{Method, RankTest, rank_test};
pub use samples::{SampleError, Samples, percentile};
pub use standing::{Rating, geometric_mean};
pub use stopping::{Progress, StopReason, Stopping};
pub use summary::Summary;
pub use verdict::{Comparison, NEGLIGIBLE, NoiseFloor, SIGNIFICANT, Verdict, compare};
