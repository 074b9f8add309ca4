//! Comparison tables: the fastest candidate of every problem and its speedup over each baseline, per timer.

use std::collections::BTreeMap;

use runlog::{Row, Timer};
use stats::{Comparison, geometric_mean};

/// The comparisons of all problems by one timer.
#[derive(Debug)]
pub struct ComparisonTable<'r> {
    /// The timer.
    pub timer: Timer,
    /// The baselines that a candidate was compared with, in the order of the log.
    pub baselines: Vec<&'r str>,
    /// One line per problem.
    pub lines: Vec<ComparisonRow<'r>>,
}

/// A problem and its fastest candidate.
#[derive(Debug)]
pub struct ComparisonRow<'r> {
    /// The problem's name.
    pub problem: &'r str,
    /// The fastest candidate.
    pub best: &'r Row,
    /// One entry per baseline of the table; `None` if the candidate was not compared with it.
    pub over: Vec<Option<&'r Comparison>>,
}

/// One table per timer that has comparisons, in the order of [`Timer`]: kernel time first.
pub fn comparison_tables(rows: &[Row]) -> Vec<ComparisonTable<'_>> {
    let mut timers: BTreeMap<Timer, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.over.is_empty()) {
        timers.entry(row.timer).or_default().push(row);
    }
    timers.into_iter().map(|(timer, rows)| comparison_table(timer, &rows)).collect()
}

fn comparison_table<'r>(timer: Timer, rows: &[&'r Row]) -> ComparisonTable<'r> {
    let mut baselines: Vec<&str> = Vec::new();
    let mut best: indexmap::IndexMap<&str, &Row> = indexmap::IndexMap::new();
    for &row in rows {
        for over in &row.over {
            if !baselines.contains(&over.baseline.as_str()) {
                baselines.push(&over.baseline);
            }
        }
        let fastest = best.entry(&row.of.problem).or_insert(row);
        if row.p50_us < fastest.p50_us {
            *fastest = row;
        }
    }
    let line = |(problem, best): (&'r str, &'r Row)| ComparisonRow {
        problem,
        best,
        over: baselines.iter().map(|name| comparison_with(best, name)).collect(),
    };
    let lines = best.into_iter().map(line).collect();
    ComparisonTable { timer, baselines, lines }
}

/// The row's comparison with a baseline.
pub fn comparison_with<'r>(row: &'r Row, baseline: &str) -> Option<&'r Comparison> {
    row.over.iter().find(|over| over.baseline == baseline).map(|over| &over.comparison)
}

impl<'r> ComparisonTable<'r> {
    /// The strongest baseline: of those measured on the most problems, the one over which the candidates gain least.
    pub fn strongest_baseline(&self) -> Option<&'r str> {
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
    use runlog::{rows, testing};

    #[test]
    fn a_table_has_the_fastest_candidate_of_each_problem() {
        let rows = rows(&testing::state_from(&testing::bench_log()));
        let tables = comparison_tables(&rows);
        assert_eq!(tables.len(), 1);
        assert_eq!(
            (tables[0].timer, tables[0].strongest_baseline()),
            (Timer::GraphHot, Some("pytorch flash"))
        );
        let line = &tables[0].lines[0];
        assert_eq!((line.problem, line.best.of.subject.as_str()), (testing::PROBLEM, "wmma stage-2"));
        assert!(line.over[0].is_some());
    }

    #[test]
    fn baselines_alone_make_no_table() {
        let mut rows = rows(&testing::state_from(&testing::bench_log()));
        rows.retain(|row| row.is_baseline);
        assert!(comparison_tables(&rows).is_empty());
    }
}
