//! Scores for comparing strategies.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::harness::Run;
use super::recorded::Recorded;

/// The mean fraction of the optimum after a number of evaluations, and its standard error over seeds.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ScoreAtBudget {
    /// Number of evaluations.
    pub evaluations: usize,
    /// Mean over seeds of optimum divided by best time so far, from 0 to 1.
    pub mean: f64,
    /// Standard error of the mean over seeds.
    pub standard_error: f64,
}

/// The score of a strategy on one space.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Score {
    /// The name of the recorded space.
    pub space: String,
    /// The kernel of the recorded space.
    pub kernel: String,
    /// The GPU of the recorded space.
    pub gpu: String,
    /// The strategy's name.
    pub strategy: String,
    /// Number of seeds; each is one run.
    pub seeds: usize,
    /// Largest number of evaluations of a run.
    pub budget: usize,
    /// The score at each requested number of evaluations.
    pub at: Vec<ScoreAtBudget>,
    /// Mean over the whole budget; it rewards strategies that are good early.
    pub area: f64,
    /// Median over seeds of the evaluations needed for 95% of the optimum; `None` if fewer than half reach it.
    pub to_95: Option<f64>,
    /// Fraction of seeds that reach 95%.
    pub reach_95: f64,
    /// Mean over seeds of the number of evaluated points; no point is evaluated twice.
    pub mean_unique: f64,
    /// Mean over seeds of the number of evaluations that failed.
    pub mean_failed: f64,
    /// Time of the strategy itself, per 100 evaluations.
    pub seconds_per_100: f64,
}

/// The scores of a strategy over several spaces.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Suite {
    /// The strategy's name.
    pub strategy: String,
    /// For each number of evaluations: the mean over kernels of the mean over their spaces, so that many recordings
    /// of one kernel do not outweigh one of another.
    pub by_kernel: Vec<f64>,
    /// For each number of evaluations: the mean over spaces.
    pub by_space: Vec<f64>,
}

/// Scores the runs of all seeds at these numbers of evaluations.
pub fn score(recorded: &Recorded, strategy: &str, runs: &[Run], budget: usize, at: &[usize]) -> Score {
    let count = runs.len() as f64;
    let mean = |value: &dyn Fn(&Run) -> f64| runs.iter().map(value).sum::<f64>() / count;
    let marks = at.iter().map(|&evaluations| {
        let average = mean(&|run| fraction_at(run, evaluations));
        let squares: f64 = runs.iter().map(|run| (fraction_at(run, evaluations) - average).powi(2)).sum();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        ScoreAtBudget { evaluations, mean: average, standard_error: deviation / count.sqrt() }
    });
    let mut first: Vec<f64> = runs.iter().map(|run| first_at(run, 0.95).unwrap_or(f64::INFINITY)).collect();
    first.sort_by(f64::total_cmp);
    let reached = first.iter().filter(|first| first.is_finite()).count();
    let unique: usize = runs.iter().map(|run| run.order.len()).sum();
    let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
    Score {
        space: recorded.name.clone(),
        kernel: recorded.kernel.clone(),
        gpu: recorded.gpu.clone(),
        strategy: strategy.to_owned(),
        seeds: runs.len(),
        budget,
        at: marks.collect(),
        area: (1..=budget).map(|evaluations| mean(&|run| fraction_at(run, evaluations))).sum::<f64>()
            / budget as f64,
        to_95: median(&first),
        reach_95: reached as f64 / count,
        mean_unique: unique as f64 / count,
        mean_failed: mean(&|run| run.failed as f64),
        seconds_per_100: 100.0 * seconds / unique.max(1) as f64,
    }
}

/// The fraction after a number of evaluations; the last one if the run ended earlier.
fn fraction_at(run: &Run, evaluations: usize) -> f64 {
    let known = run.fractions.len().min(evaluations);
    known.checked_sub(1).map_or(0.0, |last| run.fractions[last])
}

fn first_at(run: &Run, fraction: f64) -> Option<f64> {
    run.fractions.iter().position(|&reached| reached >= fraction).map(|before| (before + 1) as f64)
}

/// The median of sorted numbers, if it is finite. If exactly half are finite, the last of those.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let lower = if sorted.len().is_multiple_of(2) { sorted[middle.saturating_sub(1)] } else { upper };
    let median = if upper.is_finite() { f64::midpoint(lower, upper) } else { lower };
    median.is_finite().then_some(median)
}

impl Suite {
    /// The mean scores of one strategy.
    pub fn new(strategy: &str, scores: &[&Score]) -> Self {
        let mut kernels: IndexMap<&str, Vec<&Score>> = IndexMap::new();
        for score in scores {
            kernels.entry(&score.kernel).or_default().push(score);
        }
        let marks = scores.first().map_or(0, |score| score.at.len());
        let mean = |scores: &[&Score], mark: usize| {
            scores.iter().map(|score| score.at[mark].mean).sum::<f64>() / scores.len() as f64
        };
        let over_kernels =
            |mark| kernels.values().map(|scores| mean(scores, mark)).sum::<f64>() / kernels.len() as f64;
        Suite {
            strategy: strategy.to_owned(),
            by_kernel: (0..marks).map(over_kernels).collect(),
            by_space: (0..marks).map(|mark| mean(scores, mark)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(fractions: &[f64]) -> Run {
        Run { order: Vec::new(), fractions: fractions.to_vec(), failed: 0, seconds: 0.0 }
    }

    #[test]
    fn a_run_that_ends_early_keeps_its_best() {
        let run = run(&[0.0, 0.5, 0.96]);
        assert_eq!([1, 2, 3, 200].map(|evaluations| fraction_at(&run, evaluations)), [0.0, 0.5, 0.96, 0.96]);
        assert_eq!(first_at(&run, 0.95), Some(3.0));
        assert_eq!(fraction_at(&Run { fractions: Vec::new(), ..run }, 5), 0.0);
    }

    #[test]
    fn there_is_no_median_if_fewer_than_half_arrive() {
        let never = f64::INFINITY;
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, never]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0, never, never]), Some(2.0));
        assert_eq!(median(&[1.0, never, never]), None);
        assert_eq!(median(&[]), None);
    }
}
