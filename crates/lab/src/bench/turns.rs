//! Samples in turns: A B C C B A is a block, and blocks follow each other until enough is known. Whatever changes
//! slowly on the device changes for every subject of a block alike.
//!
//! Where subjects have several processes a turn is that of one process of a subject, a [`Turn`]. All subjects' first
//! processes have their turns, then all second ones, so that those who are compared sit side by side, and then the same
//! backwards. What that makes of one subject's samples is said, and taken apart again, by [`Blocks`].

use std::time::Instant;

use crate::stats::{Blocks, Progress, Samples, StopReason, Stopping};
use crate::worker::WorkerError;

/// Who is measured, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Session<'s> {
    pub subjects: usize,
    /// Of each subject; at least one.
    pub processes: usize,
    /// Samples of one turn.
    pub per_turn: usize,
    pub stopping: &'s Stopping,
    pub seed: u64,
}

/// Who has a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub subject: usize,
    pub process: usize,
}

/// What a session gave.
#[derive(Debug)]
pub struct SessionResult {
    /// By subject, of all its processes in the order taken; `None` for one that was lost on the way.
    pub samples: Vec<Option<Samples>>,
    /// Subjects of which a process was lost.
    pub lost: Vec<(usize, WorkerError)>,
    pub blocks: Blocks,
    pub stopped: StopReason,
}

/// Takes samples by `take` until the session ends, and calls `between` after every block.
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
        let forth: Vec<Turn> = (0..processes).flat_map(of_process).collect();
        for seat in forth.iter().chain(forth.iter().rev()).copied() {
            let subject = seat.subject;
            if lost.iter().any(|(gone, _)| *gone == subject) {
                continue;
            }
            match take(seat, per_turn).and_then(|times| whole(times, per_turn)) {
                Ok(times) => series[subject].extend(times),
                Err(WorkerError::Stopped) => return Err(WorkerError::Stopped),
                Err(ended) => lost.push((subject, ended)),
            }
        }
        alive.retain(|subject| !lost.iter().any(|(gone, _)| gone == subject));
        between();
        let Some(&first) = alive.first() else { break StopReason::Enough };
        if series[first].len() >= until || started.elapsed() >= stopping.time_limit {
            // Samples were looked at as they came, so every series is one.
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

/// The samples of a turn, if they are all there and times.
fn whole(times: Vec<f64>, per_turn: usize) -> Result<Vec<f64>, WorkerError> {
    let wrong = |reason: String| WorkerError::Failed { failure: crate::run::FailureKind::Other, reason };
    if times.len() != per_turn {
        return Err(wrong(format!("{} samples where {per_turn} were asked for", times.len())));
    }
    match times.iter().find(|time| !(time.is_finite() && **time > 0.0)) {
        Some(time) => Err(wrong(format!("a sample of {time} ns is no time"))),
        None => Ok(times),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::FailureKind;

    const STOPPING: Stopping =
        Stopping { half_width: 0.005, least: 12, most: Some(12), time_limit: Duration::from_mins(1) };

    fn session(subjects: usize, processes: usize, per_turn: usize) -> Session<'static> {
        Session { subjects, processes, per_turn, stopping: &STOPPING, seed: 1 }
    }

    #[test]
    fn turns_go_forth_and_back() {
        let mut order = Vec::new();
        let mut take = |seat: Turn, count: usize| {
            order.push(seat.subject);
            Ok(vec![10.0 + seat.subject as f64; count])
        };
        let turns = take_turns(session(3, 1, 2), &mut take, &mut || ()).unwrap();
        assert_eq!(order[..12], [0, 1, 2, 2, 1, 0].repeat(2));
        assert_eq!(turns.blocks, Blocks { per_block: 4, processes: 1 });
        let counts: Vec<usize> = turns.samples.iter().flatten().map(Samples::count).collect();
        assert_eq!(counts, [12; 3]);
        assert_eq!(turns.stopped, StopReason::Tight);
    }

    #[test]
    fn every_process_has_its_turns_and_its_samples_are_found_again() {
        let mut order = Vec::new();
        let mut take = |Turn { subject, process }: Turn, count: usize| {
            order.push((subject, process));
            Ok(vec![100.0 * (1 + subject) as f64 + process as f64; count])
        };
        let turns = take_turns(session(2, 3, 2), &mut take, &mut || ()).unwrap();
        let forth = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)];
        let back: Vec<(usize, usize)> = forth.iter().rev().copied().collect();
        assert_eq!((&order[..6], &order[6..12]), (&forth[..], &back[..]));
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
    fn one_that_is_lost_takes_nobody_along() {
        let mut left = 5;
        let mut take = |seat: Turn, count: usize| {
            if seat.subject == 1 {
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
    fn with_one_of_its_processes_a_subject_is_lost_and_asked_no_more() {
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
    fn what_is_no_time_is_not_taken_for_one() {
        let mut take = |seat: Turn, _: usize| Ok(vec![[0.0, f64::NAN, 5.0][seat.subject]]);
        let turns = take_turns(session(3, 1, 1), &mut take, &mut || ()).unwrap();
        assert_eq!(turns.lost.len(), 2);
        assert!(turns.samples[2].is_some());
    }

    #[test]
    fn a_run_that_stops_stops_here() {
        let mut take = |_: Turn, _: usize| Err(WorkerError::Stopped);
        assert!(matches!(take_turns(session(2, 1, 1), &mut take, &mut || ()), Err(WorkerError::Stopped)));
    }

    #[test]
    fn with_everyone_lost_it_ends() {
        let mut take =
            |_: Turn, _: usize| Err(WorkerError::Lost { failure: FailureKind::Crash, reason: String::new() });
        let turns = take_turns(session(2, 1, 1), &mut take, &mut || ()).unwrap();
        assert!(turns.samples.iter().all(Option::is_none));
        assert_eq!(turns.lost.len(), 2);
    }
}
