//! Traces: what the warps of a block do, in order. The time model replays them on a modelled multiprocessor.
//!
//! Counters say how much work a launch has, but not which work waits for which. That decides the time of kernels whose
//! warps pass tiles to each other and multiply asynchronously. Only such kernels are traced, and of them only some
//! blocks. A trace names instructions by their index, counted over all functions.

use std::collections::HashMap;

/// Maximum number of blocks of a launch that are traced. They are spread evenly over the grid.
pub const TRACED_BLOCKS: u64 = 32;

/// Maximum number of events of a warp. The traces of blocks with more events are dropped.
const MAX_EVENTS: usize = 1 << 18;

/// One phase of a barrier: an mbarrier object or one of the block's sixteen barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// Address of the mbarrier object, or [`Phase::BLOCK_BARRIER`] plus the number of the block's barrier.
    pub object: u64,
    /// Number of the phase, from 0.
    pub number: u32,
}

impl Phase {
    /// Above all addresses of mbarrier objects.
    pub const BLOCK_BARRIER: u64 = 1 << 32;
}

/// The two kinds of copies that a thread waits for in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// `cp.async`.
    Async,
    /// `cp.async.bulk` from shared to global memory.
    BulkStore,
}

/// An event of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Runs instructions one after another.
    Run {
        /// Index of the first instruction.
        first: u32,
        /// Number of instructions.
        count: u32,
    },
    /// Starts a product of the warpgroup.
    Product {
        /// Index of the instruction.
        at: u32,
    },
    /// Ends a group of products.
    CommitProducts,
    /// Waits until at most this many of the latest groups of products are under way.
    AwaitProducts {
        /// Number of groups.
        keep: u32,
    },
    /// Starts a copy that a phase of an mbarrier object waits for.
    Load {
        /// Number of bytes.
        bytes: u32,
        /// The phase.
        phase: Phase,
    },
    /// Starts a copy that is waited for in groups.
    Copy {
        /// Kind of the copy.
        kind: CopyKind,
        /// Number of bytes.
        bytes: u32,
    },
    /// Ends a group of copies.
    CommitCopies {
        /// Kind of the copies.
        kind: CopyKind,
    },
    /// Waits until at most this many of the latest groups of copies are under way.
    AwaitCopies {
        /// Kind of the copies.
        kind: CopyKind,
        /// Number of groups.
        keep: u32,
    },
    /// Arrives at a barrier.
    Arrive(Phase),
    /// Waits for the end of a phase.
    Await(Phase),
}

/// The trace of one warp while it runs.
#[derive(Debug, Default)]
pub struct WarpTrace {
    events: Vec<Event>,
    /// The instruction of the last test of an mbarrier object that failed, and the number of events before it ran on.
    failed: Option<(u32, usize)>,
}

impl WarpTrace {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.events.clear();
        self.failed = None;
    }

    /// Records that the warp begins to run straight-line code.
    pub fn enter(&mut self, first: u32, count: u32) {
        self.events.push(Event::Run { first, count });
    }

    /// Records that the warp has stopped before it ran all instructions of the last code.
    pub fn leave(&mut self, at: u32) {
        if let Some(Event::Run { first, count }) = self.events.last_mut()
            && (*first..*first + *count).contains(&at)
        {
            *count = at - *first;
        }
    }

    /// Records an event of the instruction at `at`, which is part of the last code.
    pub fn add(&mut self, at: u32, event: Event) {
        let rest = match self.events.last_mut() {
            Some(Event::Run { first, count }) if (*first..*first + *count).contains(&at) => {
                let rest = *first + *count - at - 1;
                *count = at - *first;
                rest
            }
            _ => 0,
        };
        self.events.push(event);
        if rest > 0 {
            self.enter(at + 1, rest);
        }
    }

    /// Records that a test of an mbarrier object failed. If the same instruction failed before, the code since then is a
    /// poll. A warp that polls has nothing else to do, so the polls are forgotten.
    pub fn failed(&mut self, at: u32) {
        match self.failed {
            Some((failed, events)) if failed == at => self.events.truncate(events),
            _ => {
                self.leave(at);
                self.failed = Some((at, self.events.len()));
            }
        }
    }

    /// Records that a test of an mbarrier object passed, because a phase has ended. Without a phase the object is fresh.
    pub fn passed(&mut self, at: u32, phase: Option<Phase>) {
        if let Some((failed, events)) = self.failed.take()
            && failed == at
        {
            let end = match self.events.last() {
                Some(Event::Run { first, count }) => first + count,
                _ => 0,
            };
            self.events.truncate(events);
            self.enter(at, end.saturating_sub(at));
        }
        if let Some(phase) = phase {
            self.add(at, Event::Await(phase));
        }
    }

    /// Whether the trace has become too long.
    pub fn is_full(&self) -> bool {
        self.events.len() >= MAX_EVENTS
    }

    /// Takes the events. Code of no instructions is left out.
    pub fn take(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.events);
        events.retain(|event| !matches!(event, Event::Run { count: 0, .. }));
        events
    }
}

/// The phases of a block's barriers while it is traced.
#[derive(Debug, Default)]
pub struct Phases {
    completed: HashMap<u64, u32>,
}

impl Phases {
    /// Forgets all barriers.
    pub fn clear(&mut self) {
        self.completed.clear();
    }

    /// The phase that a barrier is in.
    pub fn current(&self, object: u64) -> Phase {
        Phase { object, number: self.completed.get(&object).copied().unwrap_or(0) }
    }

    /// The last phase that a barrier has completed.
    pub fn last(&self, object: u64) -> Option<Phase> {
        let number = self.current(object).number.checked_sub(1)?;
        Some(Phase { object, number })
    }

    /// Records that a phase has ended.
    pub fn complete(&mut self, object: u64) {
        *self.completed.entry(object).or_default() += 1;
    }
}

/// The trace of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTrace {
    /// Index of the block in the grid.
    pub block: u64,
    /// The events of each warp.
    pub warps: Vec<Vec<Event>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_divides_the_code_around_it() {
        let mut trace = WarpTrace::default();
        trace.enter(10, 8);
        trace.add(13, Event::CommitProducts);
        trace.leave(16);
        let expected =
            [Event::Run { first: 10, count: 3 }, Event::CommitProducts, Event::Run { first: 14, count: 2 }];
        assert_eq!(trace.take(), expected);
    }

    #[test]
    fn polls_of_a_waiting_warp_are_forgotten() {
        let phase = Phase { object: 64, number: 0 };
        let trace = |polls: usize| {
            let mut trace = WarpTrace::default();
            trace.enter(0, 4);
            for _ in 0..polls {
                trace.failed(2);
                trace.enter(3, 1);
                trace.enter(1, 3);
            }
            trace.passed(2, Some(phase));
            trace.enter(4, 6);
            trace.take()
        };
        let expected = [
            Event::Run { first: 0, count: 2 },
            Event::Await(phase),
            Event::Run { first: 3, count: 1 },
            Event::Run { first: 4, count: 6 },
        ];
        for polls in [0, 1, 7] {
            assert_eq!(trace(polls), expected, "{polls} polls");
        }
    }
}
