//! The rows every format shows: what was measured, in numbers.

use serde::Serialize;

use super::super::{MeasuredMicros, Measurement, Of, RunState, Speed, Timer};
use crate::stats::{Between, Comparison, Interval, Samples, StopReason, Summary};

/// A subject on a problem by a timer, in numbers. All times are measured ones.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub of: Of,
    pub is_baseline: bool,
    pub timer: Timer,
    pub session: u32,
    pub count: usize,
    pub p50_us: MeasuredMicros,
    pub p90_us: MeasuredMicros,
    pub p95_us: MeasuredMicros,
    pub p99_us: MeasuredMicros,
    pub mean_us: MeasuredMicros,
    /// `None` for a single sample.
    pub std_us: Option<MeasuredMicros>,
    /// The 95% interval of the median, with what differs between processes in it: where the next run will be.
    pub interval_us: Interval,
    /// The interval of this process's samples alone.
    pub samples_interval_us: Interval,
    pub stopped: StopReason,
    /// Whether clocks were held down meanwhile; `None`: nobody knows.
    pub throttled: Option<bool>,
    pub tflops: Option<f64>,
    pub gb_per_s: Option<f64>,
    /// What the roofline of the run's own ceilings would take, as per cent of the median.
    pub ceiling_percent: Option<f64>,
    /// Against each baseline of its session.
    pub over: Vec<Over>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Over {
    pub baseline: String,
    pub comparison: Comparison,
}

/// A row for everything that was measured. Samples that are no times give no row: they cannot be told in numbers.
pub fn rows(state: &RunState) -> Vec<Row> {
    state.measurements.iter().filter_map(|measurement| row(state, measurement)).collect()
}

fn row(state: &RunState, Measurement { of, sampled }: &Measurement) -> Option<Row> {
    let samples = Samples::new(sampled.samples_ns.iter().map(|nanos| nanos / 1000.0).collect()).ok()?;
    let seed = state.manifest.as_ref().map_or(0, |manifest| manifest.seed);
    let summary = Summary::of(&samples, seed);
    let seconds = summary.p50 / 1e6;
    let between = state.between(&of.subject);
    let over = state
        .verdicts
        .iter()
        .filter(|verdict| {
            verdict.problem == of.problem
                && verdict.candidate == of.subject
                && verdict.session == sampled.session
                && verdict.timer == sampled.timer
        })
        .map(|verdict| {
            let mut comparison = verdict.comparison;
            let speedup = &mut comparison.speedup;
            let (baseline, candidate) = (state.between(&verdict.baseline), between);
            speedup.interval = Between::widen_ratio(speedup.ratio, speedup.interval, baseline, candidate);
            Over { baseline: verdict.baseline.clone(), comparison }
        });
    Some(Row {
        of: of.clone(),
        is_baseline: state.is_baseline(&of.subject),
        timer: sampled.timer,
        session: sampled.session,
        count: summary.count,
        p50_us: MeasuredMicros(summary.p50),
        p90_us: MeasuredMicros(summary.p90),
        p95_us: MeasuredMicros(summary.p95),
        p99_us: MeasuredMicros(summary.p99),
        mean_us: MeasuredMicros(summary.mean),
        std_us: summary.std.map(MeasuredMicros),
        interval_us: between.widen(summary.p50, summary.interval),
        samples_interval_us: summary.interval,
        stopped: sampled.stopped,
        throttled: sampled.telemetry.throttled.as_ref().map(|reasons| !reasons.is_empty()),
        tflops: sampled.work.map(|work| work.flops / seconds / 1e12),
        gb_per_s: sampled.work.map(|work| work.bytes as f64 / seconds / 1e9),
        ceiling_percent: roofline_seconds(state, sampled.work, sampled.matrix.as_deref())
            .map(|roof| 100.0 * roof / seconds),
        over: over.collect(),
    })
}

/// The time the work would take at the ceilings measured in this run; `None` unless both of them were.
fn roofline_seconds(state: &RunState, work: Option<op::Work>, matrix: Option<&str>) -> Option<f64> {
    let work = work?;
    let (mut tflops, mut gb_per_s) = (None, None);
    for ceiling in &state.ceilings {
        match ceiling.speed {
            Speed::MatrixTflops(rate) if ceiling.matrix.as_deref() == matrix => tflops = Some(rate),
            Speed::CopyGbPerS(rate) => gb_per_s = Some(rate),
            Speed::MatrixTflops(_) | Speed::LaunchFloorUs(_) => {}
        }
    }
    Some((work.flops / (tflops? * 1e12)).max(work.bytes as f64 / (gb_per_s? * 1e9)))
}

#[cfg(test)]
mod tests {
    use super::super::super::state::tests::{a_real_log, folded};
    use super::*;

    #[test]
    fn numbers_follow_from_the_samples() {
        let rows = rows(&folded(&a_real_log()));
        let row = &rows[1];
        // The median of 40 times 10 us * (1 + 0.0005 k), k from 0 to 10.
        assert!((row.p50_us.0 - 10.025).abs() < 0.006, "{}", row.p50_us);
        assert!(row.interval_us.contains(row.p50_us.0));
        let tflops = 5.4e8 / (row.p50_us.0 * 1e-6) / 1e12;
        assert!((row.tflops.unwrap() - tflops).abs() < 1e-9);
        // 5.4e8 flops at 800 TFLOP/s are 0.675 us; 2 MiB at 4000 GB/s are 0.524 us.
        let percent = 100.0 * 0.675 / row.p50_us.0;
        assert!((row.ceiling_percent.unwrap() - percent).abs() < 1e-9);
        assert!(rows[0].is_baseline && rows[0].over.is_empty() && row.over.len() == 1);
    }

    #[test]
    fn without_ceilings_there_is_no_share_of_them() {
        let mut state = folded(&a_real_log());
        state.ceilings.retain(|ceiling| !matches!(ceiling.speed, Speed::CopyGbPerS(_)));
        assert_eq!(rows(&state)[0].ceiling_percent, None);
        state.measurements[0].sampled.work = None;
        assert_eq!((rows(&state)[0].tflops, rows(&state)[0].gb_per_s), (None, None));
    }
}
