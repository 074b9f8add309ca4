//! The statistics of every measurement, which all formats show.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Control, MeasuredMicros, Measurement, ResultId, RunState, Speed, Timer};
use crate::stats::{
    Comparison, Interval, ProcessMean, ProcessVariation, StopReason, SubjectVariation, Summary,
};

/// The statistics of one subject on one problem by one timer. All times are measured.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub of: ResultId,
    /// The family and setting that was compiled; `None` for a peer.
    pub setting: Option<String>,
    /// Whether the subject is a baseline.
    pub is_baseline: bool,
    /// How the times were taken.
    pub timer: Timer,
    /// The session.
    pub session: u32,
    /// The number of samples of all processes.
    pub count: usize,
    /// The number of processes.
    pub processes: usize,
    /// The geometric mean of the processes' medians. The other percentiles are of all samples together.
    pub p50_us: MeasuredMicros,
    /// The 90th percentile.
    pub p90_us: MeasuredMicros,
    /// The 95th percentile.
    pub p95_us: MeasuredMicros,
    /// The 99th percentile.
    pub p99_us: MeasuredMicros,
    /// The mean.
    pub mean_us: MeasuredMicros,
    /// The standard deviation; `None` for a single sample.
    pub std_us: Option<MeasuredMicros>,
    /// The 95% interval of the median. It includes the variation between processes, so another run is expected in it.
    pub interval_us: Interval,
    /// The 95% interval of the median for the processes of this run only.
    pub samples_interval_us: Interval,
    /// The median of each process.
    pub process_medians_us: Vec<MeasuredMicros>,
    /// Why the measurement ended.
    pub stopped: StopReason,
    /// Whether the clocks were throttled; `None` if this is not known.
    pub throttled: Option<bool>,
    /// The rate of operations.
    pub tflops: Option<f64>,
    /// The rate of transferred bytes.
    pub gb_per_s: Option<f64>,
    /// The time at the roofline of the run's ceilings, as a percentage of the median.
    pub ceiling_percent: Option<f64>,
    /// The speedups over the baselines of the session.
    pub over: Vec<RowSpeedup>,
}

impl Row {
    /// The subject, with the setting if the name does not say it: `best (mma small)`.
    pub fn subject(&self) -> String {
        super::state::named(&self.of.subject, self.setting.as_deref())
    }
}

/// The speedup of a row over a baseline.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RowSpeedup {
    /// The baseline.
    pub baseline: String,
    /// The comparison.
    pub comparison: Comparison,
}

/// The data that a row, or one side of a speedup, is computed from.
struct RowBasis<'s> {
    measurement: &'s Measurement,
    summary: Summary,
    typical: ProcessMean,
    kind: ProcessVariation,
}

impl RowBasis<'_> {
    fn known(&self) -> SubjectVariation<'_> {
        SubjectVariation { kind: self.kind, medians: &self.typical.medians }
    }
}

/// One row per measurement. Samples that are not valid times give no row.
pub fn rows(state: &RunState) -> Vec<Row> {
    let controls = Controls::new(state);
    let all: Vec<RowBasis<'_>> =
        state.measurements.par_iter().filter_map(|it| basis(state, it, &controls)).collect();
    all.par_iter().map(|basis| row(state, basis, &all)).collect()
}

fn basis<'s>(
    state: &RunState,
    measurement: &'s Measurement,
    controls: &Controls<'_>,
) -> Option<RowBasis<'s>> {
    let sampled = &measurement.sampled;
    let seed = state.manifest.as_ref().map_or(0, |manifest| manifest.seed);
    let (summary, typical) = Summary::over(&sampled.samples_us().ok()?, sampled.blocks(), seed).ok()?;
    let kind = controls.between(state.is_peer(&measurement.of.subject), measurement);
    Some(RowBasis { measurement, summary, typical, kind })
}

/// The run's controls. The flag tells whether the control's subject is a peer.
struct Controls<'s>(Vec<(bool, &'s Control)>);

impl<'s> Controls<'s> {
    fn new(state: &'s RunState) -> Self {
        Controls(state.controls.iter().map(|it| (state.is_peer(&it.subject), it)).collect())
    }

    /// The variation between processes for a measurement, estimated from the controls of other subjects with the same
    /// timer: peers for a peer, kernels for a kernel, or all controls if there are none of that kind. The measurement's
    /// own control is left out, because its process medians are used separately.
    fn between(&self, is_peer: bool, Measurement { of, sampled }: &Measurement) -> ProcessVariation {
        let is_own = |control: &Control| {
            sampled.processes > 1
                && (control.session, &control.subject, &control.problem)
                    == (sampled.session, &of.subject, &of.problem)
        };
        let others = || self.0.iter().filter(|(_, it)| it.timer == sampled.timer && !is_own(it));
        let has_kind = others().any(|(peers, _)| *peers == is_peer);
        let counted = others().filter(|(peers, _)| !has_kind || *peers == is_peer);
        ProcessVariation::from_controls(counted.map(|(_, control)| (&control.speedup, control.processes)))
    }
}

fn row(state: &RunState, basis: &RowBasis<'_>, all: &[RowBasis<'_>]) -> Row {
    let (Measurement { of, sampled }, summary) = (basis.measurement, &basis.summary);
    let seconds = summary.p50 / 1e6;
    // A subject that was measured in turns with this one, in the same session.
    let in_session = |subject: &str| {
        all.iter().find(|it| {
            let (other, theirs) = (&it.measurement.of, &it.measurement.sampled);
            (theirs.session, theirs.timer, &other.problem, other.subject.as_str())
                == (sampled.session, sampled.timer, &of.problem, subject)
        })
    };
    let over = state
        .verdicts
        .iter()
        .filter(|verdict| {
            verdict.session == sampled.session
                && verdict.timer == sampled.timer
                && verdict.problem == of.problem
                && verdict.candidate == of.subject
        })
        .filter_map(|verdict| {
            let mut comparison = verdict.comparison;
            let speedup = &mut comparison.speedup;
            let baseline = in_session(&verdict.baseline)?.known();
            speedup.interval =
                SubjectVariation::widen_ratio(speedup.ratio, speedup.interval, baseline, basis.known());
            Some(RowSpeedup { baseline: verdict.baseline.clone(), comparison })
        });
    Row {
        of: of.clone(),
        setting: state.setting(of).map(str::to_owned),
        is_baseline: state.is_baseline(&of.subject),
        timer: sampled.timer,
        session: sampled.session,
        count: summary.count,
        processes: sampled.processes,
        p50_us: MeasuredMicros(summary.p50),
        p90_us: MeasuredMicros(summary.p90),
        p95_us: MeasuredMicros(summary.p95),
        p99_us: MeasuredMicros(summary.p99),
        mean_us: MeasuredMicros(summary.mean),
        std_us: summary.std.map(MeasuredMicros),
        interval_us: basis.known().widen(summary.p50, summary.interval),
        samples_interval_us: summary.interval,
        process_medians_us: basis.typical.medians.iter().copied().map(MeasuredMicros).collect(),
        stopped: sampled.stopped,
        throttled: sampled.telemetry.throttled.as_ref().map(|reasons| !reasons.is_empty()),
        tflops: sampled.work.map(|work| work.flops / seconds / 1e12),
        gb_per_s: sampled.work.map(|work| work.bytes as f64 / seconds / 1e9),
        ceiling_percent: roofline_seconds(state, sampled.work, sampled.matrix.as_deref())
            .map(|roof| 100.0 * roof / seconds),
        over: over.collect(),
    }
}

/// The time of the work at the ceilings measured in this run; `None` unless they were measured. Work without matrix
/// products is compared with the copy alone.
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
    let copy = work.bytes as f64 / (gb_per_s? * 1e9);
    if matrix.is_none() {
        return Some(copy);
    }
    Some((work.flops / (tflops? * 1e12)).max(copy))
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::{bench_log, state_from};
    use super::*;

    #[test]
    fn statistics_are_computed_from_the_samples() {
        let rows = rows(&state_from(&bench_log()));
        let row = &rows[1];
        // The median of 40 times of 10 us * (1 + 0.0005 k), with k from 0 to 10.
        assert!((row.p50_us.0 - 10.025).abs() < 0.006, "{}", row.p50_us);
        assert!(row.interval_us.contains(row.p50_us.0));
        let tflops = 5.4e8 / (row.p50_us.0 * 1e-6) / 1e12;
        assert!((row.tflops.unwrap() - tflops).abs() < 1e-9);
        // 5.4e8 flops at 800 TFLOP/s are 0.675 us; 2 MiB at 4000 GB/s are 0.524 us.
        let percent = 100.0 * 0.675 / row.p50_us.0;
        assert!((row.ceiling_percent.unwrap() - percent).abs() < 1e-9);
        assert!(rows[0].is_baseline && rows[0].over.is_empty() && row.over.len() == 1);
    }

    /// The run with three processes per subject. `levels` are factors for the times of the candidate's processes.
    fn in_three_processes(levels: [f64; 3]) -> RunState {
        let mut state = state_from(&bench_log());
        for (measurement, levels) in state.measurements.iter_mut().zip([[1.0; 3], levels]) {
            let sampled = &mut measurement.sampled;
            (sampled.per_block, sampled.processes) = (6, 3);
            let [a, b, c] = levels;
            let turns = [a, b, c, c, b, a].into_iter().cycle();
            sampled.samples_ns = sampled.samples_ns[..36].to_vec();
            sampled.samples_ns.iter_mut().zip(turns).for_each(|(time, level)| *time *= level);
        }
        state
    }

    #[test]
    fn the_interval_contains_the_median_of_every_process() {
        let (calm, spread) =
            (rows(&in_three_processes([1.0; 3])), rows(&in_three_processes([1.0, 1.0, 1.08])));
        assert_eq!((calm[1].processes, calm[1].process_medians_us.len(), calm[1].count), (3, 3, 36));
        assert!(calm[1].interval_us.half_width() < 0.012 * calm[1].p50_us.0, "{:?}", calm[1].interval_us);
        let medians: Vec<f64> = spread[1].process_medians_us.iter().map(|it| it.0).collect();
        assert!(medians.iter().all(|&median| spread[1].interval_us.contains(median)), "{medians:?}");
        // The interval of the speedup is wide too. The baseline's interval does not change.
        let over = spread[1].over[0].comparison.speedup.interval;
        assert!(over.high / over.low > 1.07, "{over:?}");
        let baseline = |rows: &[Row]| rows[0].interval_us;
        assert_eq!(baseline(&calm), baseline(&spread));
    }

    #[test]
    fn controls_apply_to_other_subjects_of_their_kind_and_timer() {
        let state = in_three_processes([1.0; 3]);
        let calm = &state.controls[0];
        let mut wild = calm.clone();
        wild.speedup.ratio = 1.05;
        wild.speedup.interval = Interval { low: 1.049, high: 1.051 };
        let width = |controls: &[&Control]| {
            let mut state = state.clone();
            state.controls = controls.iter().map(|&control| control.clone()).collect();
            let row = &rows(&state)[1];
            row.interval_us.half_width() / row.p50_us.0
        };
        let with_subject =
            |subject: &str, control: &Control| Control { subject: subject.to_owned(), ..control.clone() };
        let other = with_subject("wmma stage-9", &wild);
        assert!(width(&[&other]) > 1.2 * width(&[]));
        let cold = Control { timer: Timer::GraphCold, ..other };
        assert_eq!(
            (width(&[&with_subject("wmma stage-2", &wild)]), width(&[&cold])),
            (width(&[]), width(&[]))
        );
        // A peer's control applies to a kernel only if no kernel has a control.
        assert!(width(&[&wild]) > 1.2 * width(&[]));
        assert!(width(&[&wild, &with_subject("wmma stage-9", calm)]) < width(&[]));
    }

    #[test]
    fn without_ceilings_there_is_no_ceiling_percentage() {
        let mut state = state_from(&bench_log());
        state.ceilings.retain(|ceiling| !matches!(ceiling.speed, Speed::CopyGbPerS(_)));
        assert_eq!(rows(&state)[0].ceiling_percent, None);
        state.measurements[0].sampled.work = None;
        assert_eq!((rows(&state)[0].tflops, rows(&state)[0].gb_per_s), (None, None));
    }
}
