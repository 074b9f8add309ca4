//! A run for people: `summary.md`, and `report.html`, one page that needs no network and no script.
//!
//! Everything comes from a [`RunState`], which comes from the run's log. The facts are picked first, each in a module of
//! its own ([`headline`], [`comparison`], [`search`], [`importance`], [`advice`], [`failures`]); [`page`] and
//! [`markdown`] only say them. A section that has nothing to show says so in a line, or is left out.
//!
//! Measured and modelled times never share a table or a picture, and never look alike: see [`Kind`].

mod advice;
mod comparison;
mod failures;
mod headline;
mod html;
mod importance;
mod markdown;
mod page;
pub(crate) mod search;
mod svg;
mod words;

use std::io;
use std::path::{Path, PathBuf};

pub use headline::{Headline, headline};
pub use markdown::Markdown;
pub use page::Html;

use crate::run::{RunState, Time};

/// Writes every file that is derived from a run's log, and says where they are. Each appears whole or not at all, also
/// beside a run that is still going on.
pub fn write(folder: &Path, state: &RunState) -> io::Result<Vec<PathBuf>> {
    crate::run::write_exports(folder, state)
}

/// How a time was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Measured,
    Modelled,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Measured, Kind::Modelled];

    fn from_time(time: Time) -> Self {
        if time.is_modelled() { Kind::Modelled } else { Kind::Measured }
    }

    pub fn word(self) -> &'static str {
        match self {
            Kind::Measured => "measured",
            Kind::Modelled => "modelled",
        }
    }
}

#[cfg(test)]
mod tests;
