//! The contents of the report, one file per topic, in the order of [`document`].

mod end;
mod profiles;
mod results;
mod searched;
mod targets;
mod top;

use runlog::{RunState, rows};

use super::document::{Document, Section};
use super::facts::Facts;
use super::headline;

/// Everything that the report says about a run.
pub fn document(state: &RunState) -> Document {
    let rows = rows(state);
    let facts = Facts::new(state, &rows);
    let sections: Vec<Section> = [
        results::measured(&facts),
        results::modelled(state),
        targets::section(state),
        searched::section(&facts),
        profiles::section(state),
        profiles::next(&facts),
        profiles::inversion(state),
        results::correctness(state),
        end::failures(&facts),
        end::environment(state),
        end::notes(state),
        Some(end::repeat(state)),
    ]
    .into_iter()
    .flatten()
    .collect();
    Document {
        title: match &state.manifest {
            Some(manifest) => format!("warpsmith {}, {}", manifest.command, manifest.started.short()),
            None => "warpsmith, a run that stopped before it started".to_owned(),
        },
        run: top::run(&facts),
        headline: headline::headline_of(&facts),
        figures: top::figures(&facts),
        notices: top::notices(&facts),
        sections,
        footer: end::footer(state),
    }
}
