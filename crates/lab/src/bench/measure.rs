//! Taking times, and writing down what they say.

use op::Op;

use super::crew::Member;
use super::plan::Subject;
use super::run::{Bench, BenchError, Entrant, Given, surprise};
use super::telemetry::Watch;
use super::turns::{Session, Turns, take_turns};
use crate::run::{Event, Sampled, Stage, Telemetry, Timer};
use crate::stats::{Interval, NoiseFloor, Paired, Samples, Speedup, compare};
use crate::worker::{Ask, Say};

/// How long one replay of a hot graph takes at least. What the CPU does between two replays is hidden behind the
/// first, what is left (about a microsecond) is nothing against this.
const REPLAY_NS: f64 = 400_000.0;

impl<O: Op> Bench<'_, O> {
    /// Times everybody in turns, by one timer after the other.
    pub(super) fn time(
        &self,
        members: &mut [Member<'_, '_>],
        entrants: Vec<Entrant>,
        given: &Given<'_, O>,
    ) -> Result<(), BenchError> {
        let mut alive = Vec::new();
        for entrant in entrants {
            let ask =
                Ask::Arm { timers: self.plan.timers.clone(), warmup: self.plan.warmup, replay_ns: REPLAY_NS };
            let armed = members[entrant.index].ask(self.office, &ask).map(|_| ());
            self.keep(&mut alive, entrant, Stage::Bench, armed)?;
        }
        for &timer in &self.plan.timers {
            self.stopped()?;
            if alive.is_empty() {
                break;
            }
            (self.tell)(&format!("{}: timing {} subjects in turns ({timer})", given.name, alive.len()));
            let (turns, telemetry) = self.session(members, &alive, timer)?;
            alive = self.record(members, alive, given, timer, turns, &telemetry)?;
        }
        self.finish(alive)
    }

    fn session(
        &self,
        members: &mut [Member<'_, '_>],
        entrants: &[Entrant],
        timer: Timer,
    ) -> Result<(Turns, Telemetry), BenchError> {
        let mut watch = Watch::new(self.monitor);
        let session = Session {
            subjects: entrants.len(),
            per_turn: per_turn(timer),
            stopping: &self.plan.stopping,
            seed: self.plan.seed,
        };
        let mut take = |subject: usize, count: usize| {
            let ask = Ask::Sample { timer, count };
            match members[entrants[subject].index].ask(self.office, &ask)? {
                Say::Samples { ns } => Ok(ns),
                other => Err(surprise(&other)),
            }
        };
        let turns = take_turns(session, &mut take, &mut || watch.look()).map_err(|_| BenchError::Stopped)?;
        Ok((turns, watch.seen()))
    }

    /// Writes down a session: samples, the control, and every candidate against every baseline.
    fn record(
        &self,
        members: &[Member<'_, '_>],
        entrants: Vec<Entrant>,
        given: &Given<'_, O>,
        timer: Timer,
        turns: Turns,
        telemetry: &Telemetry,
    ) -> Result<Vec<Entrant>, BenchError> {
        let session = self.run.state().next_session();
        let seed = self.plan.seed;
        let Turns { samples, mut lost, per_block, stopped } = turns;
        let mut measured: Vec<(&Subject<'_>, &Samples)> = Vec::new();
        for (entrant, samples) in entrants.iter().zip(&samples) {
            let Some(samples) = samples else { continue };
            measured.push((members[entrant.index].subject, samples));
            let sampled = Sampled {
                timer,
                session,
                samples_ns: samples.taken().to_vec(),
                per_block,
                warmup: self.plan.warmup,
                stopped,
                work: Some(self.op.work(given.problem)),
                matrix: Some(self.op.matrix_type(given.problem).to_owned()),
                apart_ns: Vec::new(),
                telemetry: telemetry.clone(),
            };
            self.run.record(&Event::Sampled { of: entrant.key.of.clone(), sampled })?;
        }
        let mut floor: Option<NoiseFloor> = None;
        for (subject, first, again) in controls(&measured) {
            let Ok(paired) = Paired::new(first, again, per_block) else { continue };
            let speedup = paired.speedup(seed);
            let noise_floor = NoiseFloor::of(&speedup, tick(first) / first.median());
            // Who differs most from itself says what can be told apart.
            if floor.is_none_or(|before| noise_floor > before) {
                floor = Some(noise_floor);
            }
            self.run.record(&Event::Control {
                problem: given.name.clone(),
                subject: subject.name.clone(),
                session,
                timer,
                speedup,
                noise_floor,
            })?;
        }
        let floor = floor.unwrap_or_else(unknown_floor);
        for (candidate, times) in measured.iter().filter(|(subject, _)| subject.is_candidate) {
            for (baseline, others) in measured.iter().filter(|(subject, _)| subject.is_baseline) {
                if candidate.name == baseline.name {
                    continue;
                }
                let Ok(paired) = Paired::new(others, times, per_block) else { continue };
                self.run.record(&Event::Verdict {
                    problem: given.name.clone(),
                    candidate: candidate.name.clone(),
                    baseline: baseline.name.clone(),
                    session,
                    timer,
                    comparison: compare(&paired, floor, seed),
                })?;
            }
        }
        let mut alive = Vec::new();
        for (position, entrant) in entrants.into_iter().enumerate() {
            let ended = lost.iter().position(|(gone, _)| *gone == position).map(|at| lost.swap_remove(at).1);
            self.keep(&mut alive, entrant, Stage::Bench, ended.map_or(Ok(()), Err))?;
        }
        Ok(alive)
    }
}

/// The subjects that were measured twice, with both their series.
fn controls<'m>(
    measured: &[(&'m Subject<'m>, &'m Samples)],
) -> Vec<(&'m Subject<'m>, &'m Samples, &'m Samples)> {
    let with_twin = |(twin, again): &(&'m Subject<'m>, &'m Samples)| {
        let name = twin.again.as_ref()?;
        let (subject, first) = measured.iter().find(|(subject, _)| subject.name == *name)?;
        Some((*subject, *first, *again))
    };
    measured.iter().filter_map(with_twin).collect()
}

/// A hot sample is the mean of many launches; the others are single ones, of which a turn takes some.
fn per_turn(timer: Timer) -> usize {
    match timer {
        Timer::GraphHot => 1,
        Timer::GraphCold | Timer::Eager => 4,
    }
}

/// The step in which times come: the smallest difference there is between two.
fn tick(samples: &Samples) -> f64 {
    let steps = samples.sorted().windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0);
    let tick = steps.fold(f64::INFINITY, f64::min);
    if tick.is_finite() { tick } else { 0.0 }
}

/// Where there is no control: two per cent, about what one kernel has differed by between two processes on an H200.
fn unknown_floor() -> NoiseFloor {
    let interval = Interval { low: 0.98, high: 1.02 };
    NoiseFloor::of(&Speedup { ratio: 1.0, interval, blocks: 0 }, 0.0)
}
