//! Measures the time of the oracle: `oracle-speed [PROBLEM...]`.

use std::time::Instant;

use attention::oracle::{self, Rows};
use attention::{Class, Inputs, Layout, problem};

pub fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn std::error::Error>> {
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names = ["mission", "long", "canonical-e4m3"].map(str::to_owned).to_vec();
    }
    for name in &names {
        for problem in problem::expand(name)? {
            let inputs =
                Inputs::generate(&problem, Class::Normal, 1).encode(problem.dtype, Layout::Bhsd).decode();
            let rows = Rows::within(&problem, 10_000_000_000, 1);
            let count = rows.list().len();
            let start = Instant::now();
            oracle::attention(&problem, &inputs, rows);
            let seconds = start.elapsed().as_secs_f64();
            println!("{problem}: {count} of {} rows in {seconds:.2} s", problem.query_shape().rows());
        }
    }
    Ok(())
}
