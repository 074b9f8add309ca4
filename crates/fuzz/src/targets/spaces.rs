//! Recorded search spaces, and strategies played on them.

use search::replay::{Recorded, play, score, write_csv};
use search::strategy;

/// Points of a space on which the strategies are played.
const MOST_POINTS: usize = 200;
const BUDGET: usize = 6;

pub fn run(input: &[u8]) {
    let recorded = match Recorded::of_bytes(input, "fuzzed") {
        Ok(recorded) => recorded,
        Err(fault) => return drop(fault.to_string()),
    };
    drop((recorded.valid(), recorded.space.raw_len(), recorded.space.varying()));
    for point in recorded.space.points().take(MOST_POINTS) {
        let positions = recorded.space.positions(point);
        assert_eq!(recorded.space.find(&positions), Some(point), "a point is not where it is");
        drop(recorded.space.key(point));
    }
    if recorded.space.len() > MOST_POINTS {
        return;
    }
    for strategy in strategy::ALL {
        let runs = [play(&recorded, strategy, 1, BUDGET)];
        let score = score(&recorded, strategy.name, &runs, BUDGET, &[1, BUDGET]);
        let _ = write_csv(&[score], Vec::new());
    }
}
