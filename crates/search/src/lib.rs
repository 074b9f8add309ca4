//! Search spaces and search strategies for kernel tuning.
//!
//! * [`space`]: parameters, constraints, and the allowed combinations;
//! * [`history`]: proposals and their outcomes;
//! * [`strategies`]: the strategies, which propose the next point; [`strategy`] is their interface;
//! * [`replay`]: runs and scores strategies on recorded spaces.
//!
//! The caller owns the loop of a search:
//!
//! ```
//! use warpsmith_search::history::{History, Outcome};
//! use warpsmith_search::space::{Constraint, Parameter, Space};
//! use warpsmith_search::strategies;
//!
//! let parameters = vec![
//!     Parameter::new("BLOCK_M", [16, 32, 64, 128]),
//!     Parameter::new("BLOCK_N", [16, 32, 64, 128]),
//!     Parameter::new("STAGES", [1, 2, 3, 4]),
//! ];
//! let fits = Constraint::new([0, 1, 2], |values| {
//!     values.iter().filter_map(|value| value.number()).product::<f64>() <= 16384.0
//! });
//! let space = Space::new(parameters, &[fits])?;
//!
//! let mut strategy = strategies::by_name(strategies::DEFAULT)?.start(7);
//! let mut history = History::new();
//! for _ in 0..20 {
//!     let Some(proposal) = strategy.ask(&space, &history) else { break };
//!     let point = proposal.point;
//!     history.ask(proposal);
//!     let time: f64 = space.values(point).filter_map(|value| value.number()).map(|v| (v - 32.0).abs()).sum();
//!     history.tell(point, Outcome::Time(1.0 + time));
//! }
//! let (best, _) = history.best().expect("twenty points were timed");
//! assert_eq!(space.key(best), "32,32,4");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod draws;
pub mod history;
mod model;
pub mod replay;
pub mod space;
pub mod strategies;
pub mod strategy;
mod value;

pub use value::Value;
