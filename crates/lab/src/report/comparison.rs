//! Problems against baselines: what was measured in turns, by one timer.

use std::collections::BTreeMap;

use crate::run::{Row, Timer};
use crate::stats::{Comparison, geometric_mean};

/// Every problem by one timer.
#[derive(Debug)]
pub struct ComparisonTable<'r> {
    pub timer: Timer,
    /// Those anything was compared with, in the order of the log.
    pub baselines: Vec<&'r str>,
    pub lines: Vec<ComparisonRow<'r>>,
}

/// A problem, with its fastest candidate.
#[derive(Debug)]
pub struct ComparisonRow<'r> {
    pub problem: &'r str,
    pub best: &'r Row,
    /// As many as the board has baselines; `None` where it was not compared with one.
    pub over: Vec<Option<&'r Comparison>>,
}

/// A board per timer that has comparisons: kernel time first, as [`Timer`] orders them.
pub fn boards(rows: &[Row]) -> Vec<ComparisonTable<'_>> {
    let mut timers: BTreeMap<Timer, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.over.is_empty()) {
        timers.entry(row.timer).or_default().push(row);
    }
    timers.into_iter().map(|(timer, rows)| board(timer, &rows)).collect()
}

fn board<'r>(timer: Timer, rows: &[&'r Row]) -> ComparisonTable<'r> {
    let mut baselines: Vec<&str> = Vec::new();
    let mut best: indexmap::IndexMap<&str, &Row> = indexmap::IndexMap::new();
    for &row in rows {
        for over in &row.over {
            if !baselines.contains(&over.baseline.as_str()) {
                baselines.push(&over.baseline);
            }
        }
        let place = best.entry(&row.of.problem).or_insert(row);
        if row.p50_us < place.p50_us {
            *place = row;
        }
    }
    let line = |(problem, best): (&'r str, &'r Row)| ComparisonRow {
        problem,
        best,
        over: baselines.iter().map(|name| against(best, name)).collect(),
    };
    let lines = best.into_iter().map(line).collect();
    ComparisonTable { timer, baselines, lines }
}

/// The row's comparison with a baseline.
pub fn against<'r>(row: &'r Row, baseline: &str) -> Option<&'r Comparison> {
    row.over.iter().find(|over| over.baseline == baseline).map(|over| &over.comparison)
}

impl<'r> ComparisonTable<'r> {
    /// The baseline that is hardest to beat: measured on the most problems, and of those the one over which the best
    /// candidates gain least.
    pub fn hardest(&self) -> Option<&'r str> {
        let gains = self.baselines.iter().enumerate().filter_map(|(index, name)| {
            let ratios: Vec<f64> =
                self.lines.iter().filter_map(|line| Some(line.over[index]?.speedup.ratio)).collect();
            Some((ratios.len(), geometric_mean(ratios.iter().copied())?, *name))
        });
        gains.max_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1))).map(|(_, _, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{rows, testing};

    #[test]
    fn the_fastest_candidate_stands_for_a_problem() {
        let rows = rows(&testing::folded(&testing::a_real_log()));
        let boards = boards(&rows);
        assert_eq!(boards.len(), 1);
        assert_eq!((boards[0].timer, boards[0].hardest()), (Timer::GraphHot, Some("pytorch flash")));
        let line = &boards[0].lines[0];
        assert_eq!((line.problem, line.best.of.subject.as_str()), (testing::PROBLEM, "wmma stage-2"));
        assert!(line.over[0].is_some());
    }

    #[test]
    fn baselines_alone_make_no_board() {
        let mut rows = rows(&testing::folded(&testing::a_real_log()));
        rows.retain(|row| row.is_baseline);
        assert!(boards(&rows).is_empty());
    }
}
