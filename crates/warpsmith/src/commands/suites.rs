//! `suites`: lists the built-in suites, or shows one.

use lab::suite::{self, Suite, Target};
use lab::words::count;
use op::OpProblems as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Global, SuitesOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops::{AnyOp, Problem};
use crate::printer::{Printer, STRONG, styled};
use crate::tables::Table;

#[derive(JsonSchema, Serialize)]
pub struct Document {
    suites: Vec<SuiteDocument>,
}

#[derive(JsonSchema, Serialize)]
struct SuiteDocument {
    name: String,
    description: String,
    problems: Vec<String>,
    baselines: Vec<String>,
    targets: Vec<Target>,
}

/// Lists the built-in suites, or shows the one that the user names.
pub fn run(options: &SuitesOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = global.catalog()?;
    let op = AnyOp::of_command(global, &[], &catalog)?;
    let names: Vec<String> = match &options.name {
        Some(name) => vec![name.clone()],
        None => op.suites().into_iter().map(|suite| suite.name).collect(),
    };
    let suites = names.iter().map(|name| suite::find(&op, name)).collect::<Result<Vec<_>, _>>()?;
    if printer.is_json() {
        printer.json("suites", &Document { suites: suites.into_iter().map(document).collect() });
    } else if let (Some(_), [suite]) = (&options.name, suites.as_slice()) {
        printer.data(&details(&op, suite));
    } else {
        let mut table = Table::new(&["suite", "problems", "description"], &["problems"]);
        for suite in &suites {
            let problems = suite.problems.len().to_string();
            table.row([suite.name.clone(), problems, suite.description.clone()]);
        }
        printer.data(&table.text());
    }
    Ok(Exit::Success)
}

fn document(suite: Suite<Problem>) -> SuiteDocument {
    let Suite { name, description, problems, baselines, targets, .. } = suite;
    let problems = problems.iter().map(ToString::to_string).collect();
    SuiteDocument { name, description, problems, baselines, targets }
}

fn details(op: &AnyOp, suite: &Suite<Problem>) -> String {
    let title = styled(STRONG, &suite.name);
    let mut lines = vec![format!("{title}  {}", suite.description)];
    lines.push(format!("{}:", count(suite.problems.len(), "problem")));
    let mut table = Table::untitled(2);
    for problem in &suite.problems {
        table.row([format!("  {problem}"), op.in_words(problem)]);
    }
    lines.push(table.text());
    if !suite.baselines.is_empty() {
        lines.push(format!("baselines: {}", suite.baselines.join(", ")));
    }
    if !suite.targets.is_empty() {
        lines.push(format!("{}:", count(suite.targets.len(), "target")));
        lines.extend(suite.targets.iter().map(|target| format!("  {}", target.in_words())));
    }
    lines.join("\n")
}
