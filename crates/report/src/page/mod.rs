//! `report.html`: the report as an HTML page.

mod end;
mod profiles;
mod results;
mod searched;
mod targets;
mod top;

pub(super) use end::command;
pub(super) use profiles::ranked;

use std::io::{self, Write};

use runlog::{RunState, rows};

use super::facts::Facts;
use super::headline;
use super::html::{each, escape};
use crate::export::Exporter;

/// Writes `report.html`.
#[derive(Debug)]
pub struct Html;

impl Exporter for Html {
    fn file_name(&self) -> &'static str {
        "report.html"
    }

    fn write(&self, state: &RunState, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(page(state).as_bytes())
    }
}

const STYLE: &str = include_str!("style.css");

/// The hatching of modelled bars, defined once for all figures.
const HATCH: &str = "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\
    <pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect class=\"hatch-paper\" width=\"6\" height=\"6\"/><rect class=\"hatch-line\" width=\"2\" height=\"6\"/>\
    </pattern></defs></svg>\n";

/// A section of the page, with an entry in the table of contents.
struct Section {
    id: &'static str,
    title: &'static str,
    body: String,
}

impl Section {
    fn new(id: &'static str, title: &'static str, body: String) -> Self {
        Section { id, title, body }
    }

    fn html(&self) -> String {
        let Section { id, title, body } = self;
        format!("<section id=\"{id}\">\n<h2><a href=\"#{id}\">{title}</a></h2>\n{body}</section>\n")
    }
}

fn page(state: &RunState) -> String {
    let rows = rows(state);
    let facts = Facts::new(state, &rows);
    let headline = headline::headline_of(&facts);
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
    let contents = each(&sections, |it| format!("<li><a href=\"#{}\">{}</a></li>\n", it.id, it.title));
    let body: String = sections.iter().map(Section::html).collect();
    let title = match &state.manifest {
        Some(manifest) => format!("warpsmith {}, {}", manifest.command, manifest.started.short()),
        None => "warpsmith, a run that stopped before it started".to_owned(),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"description\" content=\"{description}\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n{HATCH}\
         <header>\n{top}</header>\n<nav aria-label=\"contents\"><ul>\n{contents}</ul></nav>\n\
         <main>\n{body}</main>\n<footer>\n{footer}</footer>\n</body>\n</html>\n",
        description = escape(&headline.sentence),
        title = escape(&title),
        top = top::html(&facts, &headline),
        footer = end::footer(state),
    )
}
