//! `problems`: lists the problems that have a short name, or explains one.

use attention::{Attention, Problem};
use op::Op;
use serde::Serialize;

use crate::cli::ProblemsOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::{Printer, STRONG, styled};
use crate::tables::Table;

#[derive(Serialize)]
struct Document {
    problems: Vec<NamedProblem>,
}

/// A problem under the name that the user may write.
#[derive(Serialize)]
struct NamedProblem {
    name: String,
    problem: String,
    meaning: String,
    flops: f64,
    bytes: u64,
}

/// Lists the aliases, or explains the problem that the user names.
pub fn run(options: &ProblemsOptions, printer: &Printer) -> Result<Exit, CommandError> {
    let names = options.name.clone().map_or_else(attention::problem::aliases, |name| vec![name]);
    let mut problems = Vec::new();
    for name in names {
        problems.extend(Attention.problems(&name)?.iter().map(|problem| named(&name, problem)));
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
    printer.data(
        "\nb is the number of sequences, h of heads, s of tokens, d the head dimension. A name means fp16 unless a \
         dtype follows it: mission-e4m3. `warpsmith problems NAME` explains one problem, and `warpsmith problems \
         --help` how to write any other.",
    );
    Ok(Exit::Success)
}

fn named(name: &str, problem: &Problem) -> NamedProblem {
    let work = Attention.work(problem);
    NamedProblem {
        name: name.to_owned(),
        problem: problem.to_string(),
        meaning: problem.in_words(),
        flops: work.flops,
        bytes: work.bytes,
    }
}
