//! Samples in turns: A B C C B A is a block, and blocks follow each other until enough is known. Whatever changes
//! slowly on the device changes for every subject of a block alike.

use std::time::Instant;

use crate::stats::{Progress, Samples, StopReason, Stopping};
use crate::worker::Ended;

/// Who is measured, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Session<'s> {
    pub subjects: usize,
    /// Samples of one turn.
    pub per_turn: usize,
    pub stopping: &'s Stopping,
    pub seed: u64,
}

/// What a session gave.
#[derive(Debug)]
pub struct Turns {
    /// By subject, in the order taken; `None` for one that was lost on the way.
    pub samples: Vec<Option<Samples>>,
    pub lost: Vec<(usize, Ended)>,
    pub per_block: usize,
    pub stopped: StopReason,
}

/// Takes samples by `take` until the session ends, and calls `between` after every block.
pub fn take_turns(
    session: Session<'_>,
    take: &mut dyn FnMut(usize, usize) -> Result<Vec<f64>, Ended>,
    between: &mut dyn FnMut(),
) -> Result<Turns, Ended> {
    let Session { subjects, per_turn, stopping, seed } = session;
    let started = Instant::now();
    let mut series: Vec<Vec<f64>> = vec![Vec::new(); subjects];
    let mut alive: Vec<usize> = (0..subjects).collect();
    let mut lost: Vec<(usize, Ended)> = Vec::new();
    let mut until = stopping.next_look(0);
    let stopped = loop {
        for subject in alive.iter().chain(alive.iter().rev()).copied().collect::<Vec<_>>() {
            if lost.iter().any(|(gone, _)| *gone == subject) {
                continue;
            }
            match take(subject, per_turn).and_then(|times| whole(times, per_turn)) {
                Ok(times) => series[subject].extend(times),
                Err(Ended::Stopped) => return Err(Ended::Stopped),
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
            match stopping.progress(&known.iter().collect::<Vec<_>>(), started.elapsed(), seed) {
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
    Ok(Turns { samples, lost, per_block: 2 * per_turn, stopped })
}

/// The samples of a turn, if they are all there and times.
fn whole(times: Vec<f64>, per_turn: usize) -> Result<Vec<f64>, Ended> {
    let wrong = |reason: String| Ended::Failed { failure: crate::run::FailureKind::Other, reason };
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

    fn session(subjects: usize, per_turn: usize) -> Session<'static> {
        Session { subjects, per_turn, stopping: &STOPPING, seed: 1 }
    }

    #[test]
    fn turns_go_forth_and_back() {
        let mut order = Vec::new();
        let mut take = |subject: usize, count: usize| {
            order.push(subject);
            Ok(vec![10.0 + subject as f64; count])
        };
        let turns = take_turns(session(3, 2), &mut take, &mut || ()).unwrap();
        assert_eq!(order[..12], [0, 1, 2, 2, 1, 0].repeat(2));
        assert_eq!(turns.per_block, 4);
        let counts: Vec<usize> = turns.samples.iter().flatten().map(Samples::count).collect();
        assert_eq!(counts, [12; 3]);
        assert_eq!(turns.stopped, StopReason::Tight);
    }

    #[test]
    fn one_that_is_lost_takes_nobody_along() {
        let mut left = 5;
        let mut take = |subject: usize, count: usize| {
            if subject == 1 {
                left -= 1;
                if left == 0 {
                    return Err(Ended::Lost { failure: FailureKind::Hang, reason: "gone".to_owned() });
                }
            }
            Ok(vec![10.0; count])
        };
        let turns = take_turns(session(3, 1), &mut take, &mut || ()).unwrap();
        assert_eq!(turns.lost.len(), 1);
        assert!(turns.samples[1].is_none());
        assert_eq!(turns.samples[2].as_ref().unwrap().count(), 12);
    }

    #[test]
    fn what_is_no_time_is_not_taken_for_one() {
        let mut take = |subject: usize, _: usize| Ok(vec![[0.0, f64::NAN, 5.0][subject]]);
        let turns = take_turns(session(3, 1), &mut take, &mut || ()).unwrap();
        assert_eq!(turns.lost.len(), 2);
        assert!(turns.samples[2].is_some());
    }

    #[test]
    fn a_run_that_stops_stops_here() {
        let mut take = |_: usize, _: usize| Err(Ended::Stopped);
        assert!(matches!(take_turns(session(2, 1), &mut take, &mut || ()), Err(Ended::Stopped)));
    }

    #[test]
    fn with_everyone_lost_it_ends() {
        let mut take =
            |_: usize, _: usize| Err(Ended::Lost { failure: FailureKind::Crash, reason: String::new() });
        let turns = take_turns(session(2, 1), &mut take, &mut || ()).unwrap();
        assert!(turns.samples.iter().all(Option::is_none));
        assert_eq!(turns.lost.len(), 2);
    }
}
