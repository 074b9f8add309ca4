//! Tools for developers: `cargo run --release -p xtask -- TOOL [ARGUMENTS]`, or `cargo xtask TOOL`.

mod docs;
mod model_rank;
mod notices;
mod occupancy_grid;
mod oracle_speed;
mod pack;
mod space_construction;
mod strategy_scores;
mod wheel;

use std::error::Error;
use std::process::ExitCode;

const TOOLS: &str = "tools:
  docs                write the generated parts of the book and the outputs of its commands
  model-rank TIMES.csv [--device h200] [--blocks N] [--parts]
                      how well modelled times rank kernels, compared with measured times
  notices FILE.ptx... the notices of every kernel of PTX files
  occupancy-grid CHIP [REGISTERS [THREADS [SHARED [BARRIERS]]]]
                      occupancy over a grid of resources, as JSON
  oracle-speed [PROBLEM...]
                      the time of the float64 reference
  pack FILE [GPU...]  compile all attention kernels that the dispatcher selects into one file
  space-construction  the time to build a space of ten million raw combinations
  strategy-scores STRATEGY,... SEEDS FILE...
                      scores of search strategies on recorded spaces, as CSV
  wheel [--kernels] [--try]
                      build the Python wheel and the source distribution into target/wheels;
                      --kernels: put compiled attention kernels into the wheel;
                      --try: install the wheel into a new virtual environment and run the quickstart";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("docs") => docs::run(),
        Some("model-rank") => model_rank::run(arguments),
        Some("notices") => notices::run(arguments),
        Some("occupancy-grid") => occupancy_grid::run(arguments),
        Some("oracle-speed") => oracle_speed::run(arguments),
        Some("pack") => pack::run(arguments),
        Some("space-construction") => space_construction::run(),
        Some("strategy-scores") => strategy_scores::run(arguments),
        Some("wheel") => wheel::run(arguments),
        Some(other) => Err(format!("there is no tool `{other}`\n{TOOLS}").into()),
        None => {
            println!("{TOOLS}");
            Ok(())
        }
    }
}
