//! `problems`: lists the problems that have a short name, or explains one.

use attention::{Attention, Problem};
use op::Op;
use serde::Serialize;

use crate::cli::ProblemsOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::printer::Printer;
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
    let mut table = Table::new(&["name", "problem", "GFLOP", "meaning"], &["GFLOP"]);
    for NamedProblem { name, problem, meaning, flops, .. } in problems {
        table.row([name, problem, format!("{:.1}", flops / 1e9), meaning]);
    }
    printer.data(&table.text());
    if options.name.is_none() {
        printer.data(
            "\nAn alias means fp16 unless a dtype follows it: mission-e4m3. `warpsmith problems --help` explains how \
             to write any other problem.",
        );
    }
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
