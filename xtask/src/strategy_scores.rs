//! Scores strategies on recorded spaces without building the whole program: `strategy-scores STRATEGY,... SEEDS FILE... >
//! scores.csv`. The scores go to stdout, the means over spaces and kernels to stderr. Users run `warpsmith replay`
//! instead.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use search::replay::{Recorded, Suite, play_all, score, write_csv};
use search::strategies;

const BUDGET: usize = 200;
const AT: [usize; 4] = [25, 50, 100, 200];

pub fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn std::error::Error>> {
    let names = arguments.next().ok_or("usage: strategy-scores STRATEGY,... SEEDS FILE...")?;
    let seeds = arguments.next().ok_or("usage: strategy-scores STRATEGY,... SEEDS FILE...")?.parse()?;
    let spaces = arguments.map(|file| Recorded::read(Path::new(&file))).collect::<Result<Vec<_>, _>>()?;
    let stop = AtomicBool::new(false);
    let mut all = Vec::new();
    for name in names.split(',') {
        let entry = strategies::by_name(name)?;
        let mut scores = Vec::new();
        for space in &spaces {
            let runs = play_all(space, entry, seeds, BUDGET, &stop, &|| ()).unwrap_or_default();
            scores.push(score(space, name, &runs, BUDGET, &AT));
        }
        let suite = Suite::new(name, &scores.iter().collect::<Vec<_>>());
        let show =
            |means: &[f64]| means.iter().map(|mean| format!("{mean:.4}")).collect::<Vec<_>>().join(" ");
        eprintln!("{name:10}  spaces {}  kernels {}", show(&suite.by_space), show(&suite.by_kernel));
        all.extend(scores);
    }
    write_csv(&all, std::io::stdout())?;
    Ok(())
}
