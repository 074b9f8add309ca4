//! The report of a run: `summary.md`, and `report.html`, a single page that needs no network and no scripts.
//!
//! All data comes from a [`RunState`](runlog::RunState), which is built from the run's log. One module per topic extracts the facts
//! ([`headline`], `comparison`, `search`, `importance`, `advice`, `failures`); `facts` collects those that
//! several sections use. `sections` puts them into one `document`, which `html` and `markdown` format. A section without
//! data says so in one line, or is left out.
//!
//! Measured and modelled times never share a table or a figure, and never look alike: see [`TimeKind`].

mod advice;
pub mod ci;
mod comparison;
mod document;
pub mod export;
mod facts;
mod failures;
mod headline;
mod html;
mod importance;
mod markdown;
pub(crate) mod search;
mod sections;
mod svg;
mod words;

pub use headline::{Headline, headline};
pub use html::Html;
pub use importance::{KnobWorth, ValueWorth, knob_worths};
pub use markdown::Markdown;
pub use search::better_trial;

use runlog::Time;

/// How a time was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// Taken on a GPU.
    Measured,
    /// Computed by the virtual GPU.
    Modelled,
}

impl TimeKind {
    const ALL: [TimeKind; 2] = [TimeKind::Measured, TimeKind::Modelled];

    fn from_time(time: Time) -> Self {
        if time.is_modelled() { TimeKind::Modelled } else { TimeKind::Measured }
    }

    /// The word for the kind: `measured` or `modelled`.
    pub fn word(self) -> &'static str {
        match self {
            TimeKind::Measured => "measured",
            TimeKind::Modelled => "modelled",
        }
    }
}

#[cfg(test)]
mod tests;
