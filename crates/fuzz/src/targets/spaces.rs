//! Recorded search spaces, and runs of strategies on them.

use search::replay::{Recorded, play, score, write_csv};
use search::strategies;

/// Largest number of points of a space on which the strategies run.
const MOST_POINTS: usize = 200;
const BUDGET: usize = 6;

/// Reads a recorded space and runs every strategy on it.
pub fn run(input: &[u8]) {
    let recorded = match Recorded::from_bytes(input, "fuzzed") {
        Ok(recorded) => recorded,
        Err(fault) => return drop(fault.to_string()),
    };
    drop((recorded.valid(), recorded.space.raw_len(), recorded.space.varying()));
    for point in recorded.space.points().take(MOST_POINTS) {
        let positions = recorded.space.positions(point);
        assert_eq!(recorded.space.find(&positions), Some(point), "a point is not found at its positions");
        drop(recorded.space.key(point));
    }
    if recorded.space.len() > MOST_POINTS {
        return;
    }
    for strategy in strategies::ALL {
        let runs = [play(&recorded, strategy, 1, BUDGET)];
        let score = score(&recorded, strategy.name, &runs, BUDGET, &[1, BUDGET]);
        let _ = write_csv(&[score], Vec::new());
    }
}
