//! Takes samples in turns. A B C C B A is one block; blocks follow each other until the medians are precise enough. A
//! slow change of the device affects every subject of a block equally.
//!
//! If subjects have several processes, a [`Turn`] belongs to one process of a subject. First all subjects' first
//! processes take a turn, then all second ones, and so on, so that the processes that are compared run close together.
//! Then the same order is run backwards. [`Blocks`] describes the resulting order of one subject's samples and
//! separates them by process.

use std::time::Instant;

use stats::{Blocks, Progress, Samples, StopReason, Stopping};

use crate::worker::WorkerError;

/// The subjects of a session and its stopping rule.
#[derive(Clone, Copy, Debug)]
pub struct Session<'s> {
    pub subjects: usize,
    /// Processes of each subject; at least one.
    pub processes: usize,
    /// Samples of one turn.
    pub per_turn: usize,
    pub stopping: &'s Stopping,
    pub seed: u64,
}

/// The subject and process that take a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub subject: usize,
    pub process: usize,
}

/// The samples of a session.
#[derive(Debug)]
pub struct SessionResult {
    /// For each subject, the samples of all its processes in the order taken. `None` if the subject was lost.
    pub samples: Vec<Option<Samples>>,
    /// Subjects that lost a process, with the error.
    pub lost: Vec<(usize, WorkerError)>,
    pub blocks: Blocks,
    pub stopped: StopReason,
}

/// Takes samples with `take` until the session ends. Calls `between` after every block.
pub fn take_turns(
    session: Session<'_>,
    take: &mut dyn FnMut(Turn, usize) -> Result<Vec<f64>, WorkerError>,
    between: &mut dyn FnMut(),
) -> Result<SessionResult, WorkerError> {
    let Session { subjects, processes, per_turn, stopping, seed } = session;
    let blocks = Blocks { per_block: 2 * per_turn * processes, processes };
    let started = Instant::now();
    let mut series: Vec<Vec<f64>> = vec![Vec::new(); subjects];
    let mut alive: Vec<usize> = (0..subjects).collect();
    let mut lost: Vec<(usize, WorkerError)> = Vec::new();
    let mut until = stopping.next_look(0);
    let stopped = loop {
        let of_process = |process| alive.iter().map(move |&subject| Turn { subject, process });
        let forward: Vec<Turn> = (0..processes).flat_map(of_process).collect();
        for turn in forward.iter().chain(forward.iter().rev()).copied() {
            let subject = turn.subject;
            if lost.iter().any(|(lost_subject, _)| *lost_subject == subject) {
                continue;
            }
            match take(turn, per_turn).and_then(|times| validated(times, per_turn)) {
                Ok(times) => series[subject].extend(times),
                Err(WorkerError::Stopped) => return Err(WorkerError::Stopped),
                Err(error) => lost.push((subject, error)),
            }
        }
        alive.retain(|subject| !lost.iter().any(|(lost_subject, _)| lost_subject == subject));
        between();
        let Some(&first) = alive.first() else { break StopReason::Enough };
        if series[first].len() >= until || started.elapsed() >= stopping.time_limit {
            // Every sample was validated when it was taken, so no series is rejected here.
            let known: Vec<Samples> =
                alive.iter().filter_map(|&subject| Samples::new(series[subject].clone()).ok()).collect();
            match stopping.progress(&known.iter().collect::<Vec<_>>(), blocks, started.elapsed(), seed) {
                Progress::Stop(reason) => break reason,
                Progress::Continue { until: next } => until = next,
            }
        }
    };
    let samples = series
        .into_iter()
        .enumerate()
        .map(|(subject, times)| if alive.contains(&subject) { Samples::new(times).ok() } else { None });
    let samples = samples.collect();
    Ok(SessionResult { samples, lost, blocks, stopped })
}

/// Returns the samples of a turn if they are complete and valid.
fn validated(times: Vec<f64>, per_turn: usize) -> Result<Vec<f64>, WorkerError> {
    let wrong = |reason: String| WorkerError::Failed { failure: runlog::FailureKind::Other, reason };
    if times.len() != per_turn {
        return Err(wrong(format!("{} samples were returned, but {per_turn} were requested", times.len())));
    }
    match times.iter().find(|time| !(time.is_finite() && **time > 0.0)) {
        Some(time) => Err(wrong(format!("a sample of {time} ns is not a valid time"))),
        None => Ok(times),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use runlog::FailureKind;

    const STOPPING: Stopping =
        Stopping { half_width: 0.005, least: 12, most: Some(12), time_limit: Duration::from_mins(1) };

    fn session(subjects: usize, processes: usize, per_turn: usize) -> Session<'static> {
        Session { subjects, processes, per_turn, stopping: &STOPPING, seed: 1 }
    }

    #[test]
    fn turns_go_forward_and_backward() {
        let mut order = Vec::new();
        let mut take = |turn: Turn, count: usize| {
            order.push(turn.subject);
            Ok(vec![10.0 + turn.subject as f64; count])
        };
        let turns = take_turns(session(3, 1, 2), &mut take, &mut || ()).unwrap();
        assert_eq!(order[..12], [0, 1, 2, 2, 1, 0].repeat(2));
        assert_eq!(turns.blocks, Blocks { per_block: 4, processes: 1 });
        let counts: Vec<usize> = turns.samples.iter().flatten().map(Samples::count).collect();
        assert_eq!(counts, [12; 3]);
        assert_eq!(turns.stopped, StopReason::Tight);
    }

    #[test]
    fn every_process_gets_turns_and_its_samples_can_be_separated() {
        let mut order = Vec::new();
        let mut take = |Turn { subject, process }: Turn, count: usize| {
            order.push((subject, process));
            Ok(vec![100.0 * (1 + subject) as f64 + process as f64; count])
        };
        let turns = take_turns(session(2, 3, 2), &mut take, &mut || ()).unwrap();
        let forward = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)];
        let backward: Vec<(usize, usize)> = forward.iter().rev().copied().collect();
        assert_eq!((&order[..6], &order[6..12]), (&forward[..], &backward[..]));
        assert_eq!(turns.blocks, Blocks { per_block: 12, processes: 3 });
        for (subject, samples) in turns.samples.iter().enumerate() {
            let split = turns.blocks.split(samples.as_ref().unwrap()).unwrap();
            for (process, own) in split.iter().enumerate() {
                let expected = 100.0 * (1 + subject) as f64 + process as f64;
                assert!(own.count() == 4 && own.taken().iter().all(|time| *time == expected), "{own:?}");
            }
        }
    }

    #[test]
    fn a_lost_subject_does_not_affect_the_others() {
        let mut left = 5;
        let mut take = |turn: Turn, count: usize| {
            if turn.subject == 1 {
                left -= 1;
                if left == 0 {
                    return Err(WorkerError::Lost { failure: FailureKind::Hang, reason: "gone".to_owned() });
                }
            }
            Ok(vec![10.0; count])
        };
        let turns = take_turns(session(3, 1, 1), &mut take, &mut || ()).unwrap();
        assert_eq!(turns.lost.len(), 1);
        assert!(turns.samples[1].is_none());
        assert_eq!(turns.samples[2].as_ref().unwrap().count(), 12);
    }

    #[test]
    fn a_subject_that_loses_a_process_gets_no_more_turns() {
        let mut asked = 0;
        let mut take = |Turn { subject, process }: Turn, count: usize| {
            asked += usize::from(subject == 0);
            if (subject, process) == (0, 1) {
                return Err(WorkerError::Lost { failure: FailureKind::Crash, reason: "gone".to_owned() });
            }
            Ok(vec![10.0; count])
        };
        let turns = take_turns(session(2, 3, 1), &mut take, &mut || ()).unwrap();
        assert_eq!((turns.lost.len(), asked), (1, 2));
        assert!(turns.samples[0].is_none());
        assert_eq!(turns.samples[1].as_ref().unwrap().count(), 12);
    }

    #[test]
    fn a_subject_with_an_invalid_sample_is_lost() {
        let mut take = |turn: Turn, _: usize| Ok(vec![[0.0, f64::NAN, 5.0][turn.subject]]);
        let turns = take_turns(session(3, 1, 1), &mut take, &mut || ()).unwrap();
        assert_eq!(turns.lost.len(), 2);
        assert!(turns.samples[2].is_some());
    }

    #[test]
    fn a_stop_request_ends_the_session() {
        let mut take = |_: Turn, _: usize| Err(WorkerError::Stopped);
        assert!(matches!(take_turns(session(2, 1, 1), &mut take, &mut || ()), Err(WorkerError::Stopped)));
    }

    #[test]
    fn the_session_ends_when_every_subject_is_lost() {
        let mut take =
            |_: Turn, _: usize| Err(WorkerError::Lost { failure: FailureKind::Crash, reason: String::new() });
        let turns = take_turns(session(2, 1, 1), &mut take, &mut || ()).unwrap();
        assert!(turns.samples.iter().all(Option::is_none));
        assert_eq!(turns.lost.len(), 2);
    }
}
