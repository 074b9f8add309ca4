//! The rows every format shows: what was measured, in numbers.

use rayon::prelude::*;
use serde::Serialize;

use super::super::{Control, MeasuredMicros, Measurement, ResultId, RunState, Speed, Timer};
use crate::stats::{Between, Comparison, Interval, Known, StopReason, Summary, Typical};

/// A subject on a problem by a timer, in numbers. All times are measured ones.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub of: ResultId,
    pub is_baseline: bool,
    pub timer: Timer,
    pub session: u32,
    /// Samples, of all processes together.
    pub count: usize,
    /// The processes they are from.
    pub processes: usize,
    /// The geometric mean of the processes' medians; the other percentiles are of all samples together.
    pub p50_us: MeasuredMicros,
    pub p90_us: MeasuredMicros,
    pub p95_us: MeasuredMicros,
    pub p99_us: MeasuredMicros,
    pub mean_us: MeasuredMicros,
    /// `None` for a single sample.
    pub std_us: Option<MeasuredMicros>,
    /// The 95% interval of the median, with what differs between processes in it: where the next run will be.
    pub interval_us: Interval,
    /// The interval of the samples of these very processes alone.
    pub samples_interval_us: Interval,
    /// The median of each process.
    pub process_medians_us: Vec<MeasuredMicros>,
    pub stopped: StopReason,
    /// Whether clocks were held down meanwhile; `None`: nobody knows.
    pub throttled: Option<bool>,
    pub tflops: Option<f64>,
    pub gb_per_s: Option<f64>,
    /// What the roofline of the run's own ceilings would take, as per cent of the median.
    pub ceiling_percent: Option<f64>,
    /// Against each baseline of its session.
    pub over: Vec<RowSpeedup>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RowSpeedup {
    pub baseline: String,
    pub comparison: Comparison,
}

/// What a row, or one side of a speedup, stands on.
struct RowBasis<'s> {
    measurement: &'s Measurement,
    summary: Summary,
    typical: Typical,
    kind: Between,
}

impl RowBasis<'_> {
    fn known(&self) -> Known<'_> {
        Known { kind: self.kind, medians: &self.typical.medians }
    }
}

/// A row for everything that was measured. Samples that are no times give no row: they cannot be told in numbers.
pub fn rows(state: &RunState) -> Vec<Row> {
    let controls = Controls::new(state);
    let all: Vec<RowBasis<'_>> =
        state.measurements.par_iter().filter_map(|it| tell(state, it, &controls)).collect();
    all.par_iter().map(|told| row(state, told, &all)).collect()
}

fn tell<'s>(state: &RunState, measurement: &'s Measurement, controls: &Controls<'_>) -> Option<RowBasis<'s>> {
    let sampled = &measurement.sampled;
    let seed = state.manifest.as_ref().map_or(0, |manifest| manifest.seed);
    let (summary, typical) = Summary::over(&sampled.samples_us().ok()?, sampled.blocks(), seed).ok()?;
    let kind = controls.between(state.is_peer(&measurement.of.subject), measurement);
    Some(RowBasis { measurement, summary, typical, kind })
}

/// The run's controls, each with whether it is a peer's.
struct Controls<'s>(Vec<(bool, &'s Control)>);

impl<'s> Controls<'s> {
    fn new(state: &'s RunState) -> Self {
        Controls(state.controls.iter().map(|it| (state.is_peer(&it.subject), it)).collect())
    }

    /// How much the time of what a measurement is of differs between processes, as others of its kind have it by the
    /// same timer: peers for a peer, kernels for a kernel, and whatever there is where there are none of its kind. Its
    /// own control does not count among them: what its own processes say is counted with them.
    fn between(&self, is_peer: bool, Measurement { of, sampled }: &Measurement) -> Between {
        let is_own = |control: &Control| {
            sampled.processes > 1
                && (control.session, &control.subject, &control.problem)
                    == (sampled.session, &of.subject, &of.problem)
        };
        let others = || self.0.iter().filter(|(_, it)| it.timer == sampled.timer && !is_own(it));
        let of_kind = others().any(|(peers, _)| *peers == is_peer);
        let counted = others().filter(|(peers, _)| !of_kind || *peers == is_peer);
        Between::from_controls(counted.map(|(_, control)| (&control.speedup, control.processes)))
    }
}

fn row(state: &RunState, told: &RowBasis<'_>, all: &[RowBasis<'_>]) -> Row {
    let (Measurement { of, sampled }, summary) = (told.measurement, &told.summary);
    let seconds = summary.p50 / 1e6;
    // Of the same session: who was measured in turns with it.
    let beside = |subject: &str| {
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
            let baseline = beside(&verdict.baseline)?.known();
            speedup.interval = Known::widen_ratio(speedup.ratio, speedup.interval, baseline, told.known());
            Some(RowSpeedup { baseline: verdict.baseline.clone(), comparison })
        });
    Row {
        of: of.clone(),
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
        interval_us: told.known().widen(summary.p50, summary.interval),
        samples_interval_us: summary.interval,
        process_medians_us: told.typical.medians.iter().copied().map(MeasuredMicros).collect(),
        stopped: sampled.stopped,
        throttled: sampled.telemetry.throttled.as_ref().map(|reasons| !reasons.is_empty()),
        tflops: sampled.work.map(|work| work.flops / seconds / 1e12),
        gb_per_s: sampled.work.map(|work| work.bytes as f64 / seconds / 1e9),
        ceiling_percent: roofline_seconds(state, sampled.work, sampled.matrix.as_deref())
            .map(|roof| 100.0 * roof / seconds),
        over: over.collect(),
    }
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

    /// The same run with every subject in three processes: these levels, as shares, of the candidate's.
    fn in_processes(levels: [f64; 3]) -> RunState {
        let mut state = folded(&a_real_log());
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
    fn a_row_reaches_every_place_its_processes_were_in() {
        let (calm, apart) = (rows(&in_processes([1.0; 3])), rows(&in_processes([1.0, 1.0, 1.08])));
        assert_eq!((calm[1].processes, calm[1].process_medians_us.len(), calm[1].count), (3, 3, 36));
        assert!(calm[1].interval_us.half_width() < 0.012 * calm[1].p50_us.0, "{:?}", calm[1].interval_us);
        let medians: Vec<f64> = apart[1].process_medians_us.iter().map(|it| it.0).collect();
        assert!(medians.iter().all(|&place| apart[1].interval_us.contains(place)), "{medians:?}");
        // So does its speedup; its neighbour's time is as well known as before.
        let over = apart[1].over[0].comparison.speedup.interval;
        assert!(over.high / over.low > 1.07, "{over:?}");
        let baseline = |rows: &[Row]| rows[0].interval_us;
        assert_eq!(baseline(&calm), baseline(&apart));
    }

    #[test]
    fn controls_count_for_their_kind_and_timer_and_not_for_themselves() {
        let state = in_processes([1.0; 3]);
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
        let of =
            |subject: &str, control: &Control| Control { subject: subject.to_owned(), ..control.clone() };
        let other = of("wmma stage-9", &wild);
        assert!(width(&[&other]) > 1.2 * width(&[]));
        let cold = Control { timer: Timer::GraphCold, ..other };
        assert_eq!((width(&[&of("wmma stage-2", &wild)]), width(&[&cold])), (width(&[]), width(&[])));
        // A peer's counts for a kernel only while there is none of a kernel.
        assert!(width(&[&wild]) > 1.2 * width(&[]));
        assert!(width(&[&wild, &of("wmma stage-9", calm)]) < width(&[]));
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
