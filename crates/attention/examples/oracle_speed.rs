//! Measures the time of the oracle: `cargo run --release -p warpsmith-attention --example oracle_speed [PROBLEM...]`.

use std::time::Instant;

use warpsmith_attention::oracle::{self, Rows};
use warpsmith_attention::{Class, Inputs, Layout, problem};

fn main() -> Result<(), problem::NameError> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
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
