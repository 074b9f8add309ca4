//! Strategies on recorded spaces, without building the whole program: `scores STRATEGY,... SEEDS FILE...`

use std::path::Path;
use std::sync::atomic::AtomicBool;

use search::replay::{Recorded, Suite, play_all, score};
use search::strategy;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let names = arguments.next().ok_or("which strategies?")?;
    let seeds = arguments.next().ok_or("how many seeds?")?.parse()?;
    let spaces = arguments.map(|file| Recorded::read(Path::new(&file))).collect::<Result<Vec<_>, _>>()?;
    let stop = AtomicBool::new(false);
    for name in names.split(',') {
        let entry = strategy::by_name(name)?;
        let mut scores = Vec::new();
        for space in &spaces {
            let runs = play_all(space, entry, seeds, 200, &stop, &|| ()).unwrap_or_default();
            let score = score(space, name, &runs, 200, &[25, 50, 100, 200]);
            let means: Vec<String> = score.at.iter().map(|at| format!("{:.4}", at.mean)).collect();
            println!(
                "{name:10} {:24} {}  failed {:.1}  {:.3} s/100",
                score.space,
                means.join(" "),
                score.mean_failed,
                score.seconds_per_100
            );
            scores.push(score);
        }
        let suite = Suite::of(name, &scores.iter().collect::<Vec<_>>());
        let show =
            |means: &[f64]| means.iter().map(|mean| format!("{mean:.4}")).collect::<Vec<_>>().join(" ");
        println!("{name:10} MEAN {}   KERNELS {}", show(&suite.by_space), show(&suite.by_kernel));
    }
    Ok(())
}
