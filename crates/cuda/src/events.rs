//! Events.

use std::time::Instant;

use crate::call_site::Site;
use crate::errors::{Outcome, Status};
use crate::guest;
use crate::order::Clock;
use crate::streams::{Capture, Key, PER_THREAD};
use crate::work::{Work, perform};
use crate::{State, state, usable};

/// An event.
#[derive(Debug)]
pub struct Event {
    flags: u32,
    recorded: Option<Recorded>,
}

/// What an event stands for.
#[derive(Clone, Debug)]
enum Recorded {
    /// A moment of a stream. Operations run when they are enqueued, so its time is that of the call.
    Moment { clock: Clock, time: Instant },
    /// A moment of a capture.
    Captured(Capture),
}

const DISABLE_TIMING: u32 = 2;

impl State {
    /// A stream waits for an event.
    pub fn wait_for_event(&mut self, stream: Key, event: u64) -> Outcome {
        match self.events.get(event)?.recorded.clone() {
            None => Ok(()),
            Some(Recorded::Moment { clock, .. }) => {
                if self.streams.captures.contains_key(&stream) {
                    return Err(Status::STREAM_CAPTURE_ISOLATION);
                }
                self.order.stream_waits(stream, &clock);
                Ok(())
            }
            Some(Recorded::Captured(captured)) => {
                let still_captures = self.streams.captures.values().any(|it| it.id == captured.id);
                if !still_captures {
                    return Err(Status::CAPTURED_EVENT);
                }
                // The stream joins the capture.
                let joined = self
                    .streams
                    .captures
                    .entry(stream)
                    .or_insert(Capture { tips: Vec::new(), ..captured.clone() });
                if joined.id != captured.id {
                    return Err(Status::STREAM_CAPTURE_ISOLATION);
                }
                for tip in captured.tips {
                    if !joined.tips.contains(&tip) {
                        joined.tips.push(tip);
                    }
                }
                Ok(())
            }
        }
    }

    /// Records an event that is not captured.
    pub fn record_event(&mut self, stream: Key, event: u64) -> Outcome {
        let clock = self.order.record(stream);
        self.events.get_mut(event)?.recorded = Some(Recorded::Moment { clock, time: Instant::now() });
        Ok(())
    }
}

fn record(event: u64, stream: u64, flags: u32) -> Outcome {
    let mut state = usable()?;
    let key = state.stream(stream)?;
    state.events.get(event)?;
    // Flag 1 makes an event node of a graph, as for other programs.
    if let Some(capture) = state.streams.captures.get(&key).cloned() {
        if flags & 1 == 0 {
            state.events.get_mut(event)?.recorded = Some(Recorded::Captured(capture));
            return Ok(());
        }
        drop(state);
        return perform(key, Work::Record(event), Site::here());
    }
    state.record_event(key, event)
}

fn wait(event: u64) -> Outcome {
    let mut state = usable()?;
    match state.events.get(event)?.recorded.clone() {
        Some(Recorded::Captured(_)) => Err(Status::CAPTURED_EVENT),
        Some(Recorded::Moment { clock, .. }) => {
            state.order.host_waits(&clock);
            state.reopen();
            Ok(())
        }
        None => Ok(()),
    }
}

fn elapsed(milliseconds: *mut f32, start: u64, end: u64) -> Outcome {
    let state = usable()?;
    let (start, end) = (state.events.get(start)?, state.events.get(end)?);
    if (start.flags | end.flags) & DISABLE_TIMING != 0 {
        return Err(Status::INVALID_HANDLE);
    }
    let (Some(Recorded::Moment { time: start, .. }), Some(Recorded::Moment { time: end, .. })) =
        (&start.recorded, &end.recorded)
    else {
        return Err(Status::INVALID_HANDLE);
    };
    let time = if end >= start { (*end - *start).as_secs_f32() } else { -(*start - *end).as_secs_f32() };
    guest::write(milliseconds, time * 1000.0)
}

api! {
    fn cuEventCreate(place: *mut u64, flags: u32) {
        let mut state = usable()?;
        state.require_context()?;
        // An event for other processes cannot have timing.
        if flags & !7 != 0 || flags & 4 != 0 && flags & DISABLE_TIMING == 0 {
            return Err(Status::INVALID_VALUE);
        }
        guest::write(place, 0)?;
        let handle = state.events.add(Event { flags, recorded: None });
        guest::write(place, handle)
    }

    fn cuEventRecord(event: u64, stream: u64) {
        record(event, stream, 0)
    }

    fn cuEventRecordWithFlags(event: u64, stream: u64, flags: u32) {
        record(event, stream, flags)
    }

    fn cuEventRecord_ptsz(event: u64, stream: u64) {
        record(event, if stream == 0 { PER_THREAD } else { stream }, 0)
    }

    fn cuEventQuery(event: u64) {
        wait(event)
    }

    fn cuEventSynchronize(event: u64) {
        wait(event)
    }

    fn cuEventDestroy_v2(event: u64) {
        state()?.events.remove(event).map(|_| ())
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, start: u64, end: u64) {
        elapsed(milliseconds, start, end)
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: u64, end: u64) {
        elapsed(milliseconds, start, end)
    }
}
