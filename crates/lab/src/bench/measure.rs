//! Takes times, and records samples, A/A controls and comparisons.

use std::collections::HashMap;

use op::Op;
use op::plausible::implausible_reason;
use runlog::{Event, MeasuredMicros, SampleSet, Stage, Telemetry, Time, Timer};
use stats::{Blocks, Interval, NoiseFloor, Paired, Samples, Speedup, StopReason, compare, control};

use super::plan::Subject;
use super::run::{Bench, Participant, ProblemInputs, implausible, unexpected_reply};
use super::telemetry::TelemetryRecorder;
use super::turns::{Session, SessionResult, Turn, take_turns};
use super::workers::SubjectWorkers;
use crate::session::StageError;
use crate::worker::{WorkerError, WorkerReply, WorkerRequest};

/// Minimum duration of one replay of a hot graph. The CPU work between two replays overlaps the first of them; the rest
/// (about one microsecond) is negligible compared with this duration.
const REPLAY_NS: f64 = 400_000.0;

impl<O: Op + ?Sized> Bench<'_, O> {
    /// Times all participants in turns, with one timer after the other.
    pub(super) fn time(
        &self,
        all_workers: &mut [SubjectWorkers<'_, '_>],
        participants: Vec<Participant>,
        given: &ProblemInputs<'_, O>,
    ) -> Result<(), StageError> {
        let mut alive = Vec::new();
        for participant in participants {
            let request = WorkerRequest::Arm {
                timers: self.plan.timers.clone(),
                warmup: self.plan.warmup,
                replay_ns: REPLAY_NS,
            };
            let workers = &mut all_workers[participant.index];
            let mut processes = workers.processes();
            let armed =
                processes.try_for_each(|process| workers.ask(self.factory, process, &request).map(|_| ()));
            self.keep_or_fail(&mut alive, participant, Stage::Bench, armed)?;
        }
        let mut sessions = Vec::new();
        for &timer in &self.plan.timers {
            self.check_stop()?;
            if alive.is_empty() {
                break;
            }
            let each = match self.plan.processes_per_subject() {
                1 => String::new(),
                processes => format!(", in {processes} processes each,"),
            };
            (self.tell)(&format!(
                "{}: timing {}{each} in turns ({timer})",
                given.name,
                text::count(alive.len(), "subject")
            ));
            let (mut turns, telemetry) = self.session(all_workers, &alive, timer)?;
            let mut lost = std::mem::take(&mut turns.lost);
            let samples = alive.iter().map(|it| it.index).zip(turns.samples).collect();
            let (blocks, stopped) = (turns.blocks, turns.stopped);
            sessions.push(SessionSamples { timer, samples, blocks, stopped, telemetry });
            let mut remaining = Vec::new();
            for (position, participant) in alive.into_iter().enumerate() {
                let error = lost.iter().position(|(lost_position, _)| *lost_position == position);
                let error = error.map(|at| lost.swap_remove(at).1);
                self.keep_or_fail(&mut remaining, participant, Stage::Bench, error.map_or(Ok(()), Err))?;
            }
            alive = remaining;
        }
        // A participant that fails here is dropped together with its samples. No samples have been recorded yet.
        let mut trusted = Vec::new();
        for participant in alive {
            let hot = sessions.iter().find(|session| session.timer == Timer::GraphHot);
            let hot = hot
                .and_then(|session| session.samples.get(&participant.index)?.as_ref().map(Samples::median));
            let outcome = self.verify(&mut all_workers[participant.index], &participant, given, hot)?;
            let outcome = outcome.and_then(|()| self.check_plausible(&participant, given, &sessions));
            self.keep_or_fail(&mut trusted, participant, Stage::Bench, outcome)?;
        }
        for session in sessions {
            self.record(all_workers, &trusted, given, session)?;
        }
        self.finish(trusted)
    }

    /// Rejects samples that are faster than the device can be.
    fn check_plausible(
        &self,
        participant: &Participant,
        given: &ProblemInputs<'_, O>,
        sessions: &[SessionSamples],
    ) -> Result<(), WorkerError> {
        let (work, matrix) = (self.op.work(given.problem), self.op.matrix_type(given.problem));
        for session in sessions {
            let Some(samples) = session.samples.get(&participant.index).and_then(Option::as_ref) else {
                continue;
            };
            let time = Time::Measured(MeasuredMicros::from_nanos(samples.median()));
            if let Some(reason) = implausible_reason(self.plan.device.gpu(), time, Some((work, matrix))) {
                return Err(implausible(&reason));
            }
        }
        Ok(())
    }

    /// Takes the samples of one session, and the device's telemetry during it.
    fn session(
        &self,
        all_workers: &mut [SubjectWorkers<'_, '_>],
        participants: &[Participant],
        timer: Timer,
    ) -> Result<(SessionResult, Telemetry), StageError> {
        let mut recorder = TelemetryRecorder::new(self.monitor);
        let session = Session {
            subjects: participants.len(),
            processes: self.plan.processes_per_subject(),
            per_turn: per_turn(timer),
            stopping: &self.plan.stopping,
            seed: self.plan.seed,
        };
        let mut take = |Turn { subject, process }: Turn, count: usize| {
            let request = WorkerRequest::Sample { timer, count };
            match all_workers[participants[subject].index].ask(self.factory, process, &request)? {
                WorkerReply::Samples { ns } => Ok(ns),
                other => Err(unexpected_reply(&other)),
            }
        };
        let turns = take_turns(session, &mut take, &mut || recorder.record_reading())
            .map_err(|_| StageError::Stopped)?;
        Ok((turns, recorder.finish()))
    }

    /// Records a session: the samples, each subject compared with itself, and each candidate compared with each
    /// baseline.
    fn record(
        &self,
        all_workers: &[SubjectWorkers<'_, '_>],
        participants: &[Participant],
        given: &ProblemInputs<'_, O>,
        taken: SessionSamples,
    ) -> Result<(), StageError> {
        let session = self.run.state().next_session();
        let seed = self.plan.seed;
        let SessionSamples { timer, samples, blocks, stopped, telemetry } = taken;
        let mut measured: Vec<(&Subject<'_>, &Samples)> = Vec::new();
        for participant in participants {
            let Some(Some(samples)) = samples.get(&participant.index) else { continue };
            measured.push((all_workers[participant.index].subject, samples));
            let sampled = SampleSet {
                timer,
                session,
                samples_ns: samples.taken().to_vec(),
                per_block: blocks.per_block,
                processes: blocks.processes,
                warmup: self.plan.warmup,
                stopped,
                work: Some(self.op.work(given.problem)),
                matrix: self.op.matrix_type(given.problem).map(str::to_owned),
                apart_ns: Vec::new(),
                telemetry: telemetry.clone(),
            };
            self.run.record(&Event::Sampled { of: participant.key.of.clone(), sampled })?;
        }
        for (subject, times) in &measured {
            // With a single process there is no A/A control.
            let Ok(speedup) = control(times, blocks, seed) else { continue };
            self.run.record(&Event::Control {
                problem: given.name.clone(),
                subject: subject.name.clone(),
                session,
                timer,
                processes: blocks.processes,
                speedup,
                noise_floor: NoiseFloor::from_control(&speedup, tick(times)),
            })?;
        }
        for (candidate, times) in measured.iter().filter(|(subject, _)| subject.is_candidate) {
            for (baseline, others) in measured.iter().filter(|(subject, _)| subject.is_baseline) {
                if candidate.name == baseline.name {
                    continue;
                }
                let Ok(paired) = Paired::over(others, times, blocks) else { continue };
                self.run.record(&Event::Verdict {
                    problem: given.name.clone(),
                    candidate: candidate.name.clone(),
                    baseline: baseline.name.clone(),
                    session,
                    timer,
                    comparison: compare(&paired, noise_floor(others, times, blocks), seed),
                })?;
            }
        }
        Ok(())
    }
}

/// The samples of one session.
struct SessionSamples {
    timer: Timer,
    /// Keyed by subject. `None` if the subject was lost during the session.
    samples: HashMap<usize, Option<Samples>>,
    blocks: Blocks,
    stopped: StopReason,
    telemetry: Telemetry,
}

/// Samples per turn. A hot sample is the mean of many launches. The other timers time single launches, so a turn takes
/// several.
fn per_turn(timer: Timer) -> usize {
    match timer {
        Timer::GraphHot => 1,
        Timer::GraphCold | Timer::Eager => 4,
    }
}

/// The resolution of the timer: the smallest difference between two samples, relative to their median.
fn tick(samples: &Samples) -> f64 {
    let steps = samples.sorted().windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0);
    let tick = steps.fold(f64::INFINITY, f64::min);
    if tick.is_finite() { tick / samples.median() } else { 0.0 }
}

/// The noise floor: how much two identical kernels may seem to differ, estimated from the differences between the
/// processes of each of these two.
fn noise_floor(baseline: &Samples, candidate: &Samples, blocks: Blocks) -> NoiseFloor {
    let medians = |samples: &Samples| -> Vec<f64> {
        blocks.split(samples).unwrap_or_default().iter().map(Samples::median).collect()
    };
    let tick = tick(baseline).max(tick(candidate));
    NoiseFloor::between(&medians(baseline), &medians(candidate), tick).unwrap_or_else(default_noise_floor)
}

/// The noise floor if no subject has a second process: 2%, about the difference between two processes of one kernel on
/// an H200.
fn default_noise_floor() -> NoiseFloor {
    let interval = Interval { low: 0.98, high: 1.02 };
    NoiseFloor::from_control(&Speedup { ratio: 1.0, interval, blocks: 0 }, 0.0)
}
