//! Samples in turns: A B C C B A is a block, and blocks follow each other until enough is known. Whatever changes
//! slowly on the device changes for every subject of a block alike.

use std::time::Instant;

use crate::stats::{Progress, Samples, StopReason, Stopping};
use crate::worker::Ended;

/// Who is measured, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Session<'s> {
    pub subjects: usize,
    /// The subject that is measured a second time, under another name, first in a block's one half and last in the
    /// other like the first.
    pub control: Option<usize>,
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
    /// The control's other samples.
    pub again: Option<Samples>,
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
    let Session { subjects, control, per_turn, stopping, seed } = session;
    let started = Instant::now();
    // The control's second self is the last entry.
    let entries: Vec<usize> = (0..subjects).chain(control).collect();
    let mut series: Vec<Vec<f64>> = vec![Vec::new(); entries.len()];
    let mut alive: Vec<usize> = (0..entries.len()).collect();
    let mut lost: Vec<(usize, Ended)> = Vec::new();
    let mut until = stopping.next_look(0);
    let stopped = loop {
        for entry in alive.iter().chain(alive.iter().rev()).copied().collect::<Vec<_>>() {
            let subject = entries[entry];
            if lost.iter().any(|(gone, _)| *gone == subject) {
                continue;
            }
            match take(subject, per_turn).and_then(|times| whole(times, per_turn)) {
                Ok(times) => series[entry].extend(times),
                Err(Ended::Stopped) => return Err(Ended::Stopped),
                Err(ended) => lost.push((subject, ended)),
            }
        }
        alive.retain(|&entry| !lost.iter().any(|(gone, _)| *gone == entries[entry]));
        between();
        let Some(&first) = alive.first() else { break StopReason::Enough };
        if series[first].len() >= until || started.elapsed() >= stopping.time_limit {
            // Samples were looked at as they came, so every series is one.
            let known: Vec<Samples> =
                alive.iter().filter_map(|&entry| Samples::new(series[entry].clone()).ok()).collect();
            match stopping.progress(&known.iter().collect::<Vec<_>>(), started.elapsed(), seed) {
                Progress::Stop(reason) => break reason,
                Progress::Continue { until: next } => until = next,
            }
        }
    };
    let lives = |entry: usize| alive.contains(&entry);
    let mut take_series =
        |entry: usize| lives(entry).then(|| Samples::new(std::mem::take(&mut series[entry])).ok()).flatten();
    let again = control.and_then(|_| take_series(subjects));
    let samples = (0..subjects).map(take_series).collect();
    Ok(Turns { samples, again, lost, per_block: 2 * per_turn, stopped })
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

    fn session(subjects: usize, control: Option<usize>, per_turn: usize) -> Session<'static> {
        Session { subjects, control, per_turn, stopping: &STOPPING, seed: 1 }
    }

    #[test]
    fn turns_go_forth_and_back_with_the_control_at_the_far_end() {
        let mut order = Vec::new();
        let mut take = |subject: usize, count: usize| {
            order.push(subject);
            Ok(vec![10.0 + subject as f64; count])
        };
        let turns = take_turns(session(3, Some(0), 2), &mut take, &mut || ()).unwrap();
        assert_eq!(order[..16], [0, 1, 2, 0, 0, 2, 1, 0].repeat(2));
        assert_eq!(turns.per_block, 4);
        let counts: Vec<usize> = turns.samples.iter().flatten().map(Samples::count).collect();
        assert_eq!((counts, turns.again.unwrap().count()), (vec![12; 3], 12));
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
        let turns = take_turns(session(3, Some(0), 1), &mut take, &mut || ()).unwrap();
        assert_eq!(turns.lost.len(), 1);
        assert!(turns.samples[1].is_none());
        assert_eq!(turns.samples[2].as_ref().unwrap().count(), 12);
        assert_eq!(turns.again.unwrap().count(), 12);
    }

    #[test]
    fn what_is_no_time_is_not_taken_for_one() {
        let mut take = |subject: usize, _: usize| Ok(vec![[0.0, f64::NAN, 5.0][subject]]);
        let turns = take_turns(session(3, Some(2), 1), &mut take, &mut || ()).unwrap();
        assert_eq!(turns.lost.len(), 2);
        assert!(turns.samples[2].is_some() && turns.again.is_some());
    }

    #[test]
    fn a_run_that_stops_stops_here() {
        let mut take = |_: usize, _: usize| Err(Ended::Stopped);
        assert!(matches!(take_turns(session(2, None, 1), &mut take, &mut || ()), Err(Ended::Stopped)));
    }

    #[test]
    fn with_everyone_lost_it_ends() {
        let mut take =
            |_: usize, _: usize| Err(Ended::Lost { failure: FailureKind::Crash, reason: String::new() });
        let turns = take_turns(session(2, Some(0), 1), &mut take, &mut || ()).unwrap();
        assert!(turns.samples.iter().all(Option::is_none) && turns.again.is_none());
        assert_eq!(turns.lost.len(), 2);
    }
}
