//! `problems`: lists the problems that have a short name, or explains one.

use op::OpProblems as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Global, ProblemsOptions};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::ops::{AnyOp, Problem};
use crate::printer::{Printer, STRONG, styled};
use crate::tables::Table;

#[derive(JsonSchema, Serialize)]
pub struct Document {
    problems: Vec<NamedProblem>,
}

/// A problem under the name that the user may write.
#[derive(JsonSchema, Serialize)]
struct NamedProblem {
    name: String,
    problem: String,
    meaning: String,
    flops: f64,
    bytes: u64,
}

/// Lists the aliases, or explains the problem that the user names.
pub fn run(options: &ProblemsOptions, global: &Global, printer: &Printer) -> Result<Exit, CommandError> {
    let catalog = global.catalog()?;
    let op = AnyOp::of_command(global, &[], &catalog)?;
    let names = options.name.clone().map_or_else(|| op.aliases(), |name| vec![name]);
    let mut problems = Vec::new();
    for name in names {
        problems.extend(op.problems(&name)?.iter().map(|problem| named(&op, &name, problem)));
    }
    if printer.is_json() {
        printer.json("problems", &Document { problems });
        return Ok(Exit::Success);
    }
    if options.name.is_some() {
        for NamedProblem { problem, meaning, flops, bytes, .. } in problems {
            let (gflop, megabytes) = (flops / 1e9, bytes as f64 / 1e6);
            printer.data(&format!("{}  {meaning}", styled(STRONG, problem)));
            printer.data(&format!("  {gflop:.2} GFLOP, at least {megabytes:.1} MB of memory traffic"));
        }
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["name", "problem", "GFLOP"], &["GFLOP"]);
    for NamedProblem { name, problem, flops, .. } in problems {
        table.row([name, problem, format!("{:.1}", flops / 1e9)]);
    }
    printer.data(&table.text());
    printer.data(&format!(
        "\n{} `warpsmith problems NAME` explains one problem, and `warpsmith problems --help` how to write any other.",
        op.name_help()
    ));
    Ok(Exit::Success)
}

fn named(op: &AnyOp, name: &str, problem: &Problem) -> NamedProblem {
    let work = op.work(problem);
    NamedProblem {
        name: name.to_owned(),
        problem: problem.to_string(),
        meaning: op.in_words(problem),
        flops: work.flops,
        bytes: work.bytes,
    }
}
