//! Traces: what the warps of a block do, in order. The time model replays them on a modelled multiprocessor.
//!
//! Counters say how much work a launch has, but not which work waits for which. That decides the time of kernels whose
//! warps pass tiles to each other and multiply asynchronously. Only such kernels are traced. A trace names instructions
//! by their index, counted over all functions.
//!
//! Every block is traced, because a kernel could do its work in the blocks that a sample leaves out. Most blocks of a
//! grid do the same, so blocks with the same trace are one kind, and few traces are kept.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of kinds of blocks whose traces are kept. They are the same for any number of workers.
const KEPT_TRACES: usize = 32;

/// Maximum number of events of a warp. The traces of blocks with more events are not kept.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyKind {
    /// `cp.async`.
    Async,
    /// `cp.async.bulk` from shared to global memory.
    BulkStore,
}

/// An event of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Sleeps.
    Sleep {
        /// Number of clocks.
        clocks: u32,
    },
}

/// The trace of one warp while it runs.
#[derive(Debug, Default)]
pub struct WarpTrace {
    /// The events, with the lanes that they belong to. Code of no instructions is not part of the trace.
    events: Vec<(Event, u32)>,
    /// The lanes whose last test of an mbarrier object failed, and the place of this test in the events. The test has no
    /// instruction there until the lanes do something else than poll.
    failed: Vec<(u32, usize)>,
    /// The lanes that run.
    mask: u32,
}

impl WarpTrace {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.events.clear();
        self.failed.clear();
    }

    /// Records that lanes begin to run straight-line code.
    pub fn enter(&mut self, first: u32, count: u32, mask: u32) {
        self.mask = mask;
        let events = &mut self.events;
        self.failed.retain(|(lanes, place)| {
            let apart = *lanes & mask == 0;
            if !apart && *lanes != mask {
                count_test(events, *place);
            }
            apart || *lanes == mask
        });
        self.run(first, count);
    }

    fn run(&mut self, first: u32, count: u32) {
        if !self.is_full() {
            self.events.push((Event::Run { first, count }, self.mask));
        }
    }

    /// Records that the warp has stopped before it ran all instructions of the last code.
    pub fn leave(&mut self, at: u32) {
        if let Some((Event::Run { first, count }, lanes)) = self.events.last_mut()
            && *lanes == self.mask
            && (*first..*first + *count).contains(&at)
        {
            *count = at - *first;
        }
    }

    /// Records an event of the instruction at `at`, which is part of the last code.
    pub fn add(&mut self, at: u32, event: Event) {
        let end = self.end_of_last();
        self.leave(at);
        self.events.push((event, self.mask));
        if end > at + 1 {
            self.run(at + 1, end - at - 1);
        }
    }

    /// The instruction behind the last code.
    fn end_of_last(&self) -> u32 {
        match self.events.last() {
            Some((Event::Run { first, count }, _)) => first + count,
            _ => 0,
        }
    }

    /// Records that the lanes that run have tested an mbarrier object. If they have polled since the same test failed, the
    /// code since then is forgotten, because lanes that poll have nothing else to do. If the test passes because a phase
    /// has ended, they waited for this phase. Without a phase the object is fresh.
    pub fn test(&mut self, at: u32, polled: bool, passed: bool, phase: Option<Phase>) {
        let end = self.end_of_last();
        let known = self.failed.iter().position(|(lanes, _)| *lanes == self.mask);
        let mut place = known.map(|known| self.failed.swap_remove(known).1);
        match place {
            Some(place) if polled => self.forget(place),
            Some(test) => {
                count_test(&mut self.events, test);
                place = None;
            }
            None => {}
        }
        if passed && phase.is_none() {
            if place.is_some() {
                self.run(at, end.saturating_sub(at));
            }
            return;
        }
        if place.is_none() {
            self.leave(at);
        }
        if !passed {
            let place = place.unwrap_or_else(|| {
                self.events.push((Event::Run { first: at, count: 0 }, self.mask));
                self.events.len() - 1
            });
            self.failed.push((self.mask, place));
            return;
        }
        if let Some(phase) = phase {
            self.events.push((Event::Await(phase), self.mask));
        }
        if end > at + 1 {
            self.run(at + 1, end - at - 1);
        }
    }

    /// Forgets what the lanes that run have done since their test failed.
    fn forget(&mut self, place: usize) {
        for (event, lanes) in &mut self.events[place + 1..] {
            if *lanes == self.mask {
                *event = Event::Run { first: 0, count: 0 };
            }
        }
        let last = self.failed.iter().map(|(_, place)| *place).fold(place, usize::max);
        while self.events.len() > last + 1
            && self.events.pop_if(|(event, _)| matches!(event, Event::Run { count: 0, .. })).is_some()
        {
        }
    }

    /// Whether the trace has become too long.
    pub fn is_full(&self) -> bool {
        self.events.len() >= MAX_EVENTS
    }

    /// Ends the trace, and returns the events.
    pub fn finish(&mut self) -> Vec<Event> {
        for (_, place) in std::mem::take(&mut self.failed) {
            count_test(&mut self.events, place);
        }
        let events = self.events.iter().map(|(event, _)| *event);
        events.filter(|event| !matches!(event, Event::Run { count: 0, .. })).collect()
    }
}

/// A test that failed was not part of a poll.
fn count_test(events: &mut [(Event, u32)], place: usize) {
    if let Some((Event::Run { count, .. }, _)) = events.get_mut(place) {
        *count = 1;
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

/// How much work a block has, of every kind that takes time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockLoad {
    /// Clocks of the slowest warp if it never waits for a pipe.
    pub chain: u64,
    /// Warp instructions.
    pub instructions: u64,
    /// Floating-point operations of products of warpgroups.
    pub product_flops: u64,
    /// Bytes of asynchronous copies.
    pub copied_bytes: u64,
}

/// Blocks that do the same.
#[derive(Clone, Debug)]
pub struct BlockKind {
    hash: u64,
    pub load: BlockLoad,
    /// The events of each warp, if the trace is kept.
    pub warps: Option<Vec<Vec<Event>>>,
}

/// The blocks of a launch, or of a worker, by kind.
#[derive(Debug, Default)]
pub struct Traces {
    numbers: HashMap<(u64, BlockLoad), u32>,
    kinds: Vec<BlockKind>,
    /// The kinds whose traces are kept: those with the smallest hashes.
    kept: BTreeSet<(u64, BlockLoad, u32)>,
    /// The blocks that were traced and their kinds.
    blocks: Vec<(u64, u32)>,
}

impl Traces {
    /// Adds a block that has ended.
    pub fn add<'t>(&mut self, block: u64, load: BlockLoad, warps: impl Iterator<Item = &'t mut WarpTrace>) {
        let mut hasher = DefaultHasher::new();
        let mut is_whole = true;
        let warps: Vec<Vec<Event>> = warps
            .map(|warp| {
                is_whole &= !warp.is_full();
                warp.finish()
            })
            .collect();
        warps.hash(&mut hasher);
        let number = self.number(hasher.finish(), load, || is_whole.then_some(warps));
        self.blocks.push((block, number));
    }

    /// Adds the blocks of another worker.
    pub fn merge(&mut self, other: Traces) {
        let mut numbers = Vec::with_capacity(other.kinds.len());
        for BlockKind { hash, load, warps } in other.kinds {
            numbers.push(self.number(hash, load, || warps));
        }
        self.blocks.extend(other.blocks.iter().map(|(block, kind)| (*block, numbers[*kind as usize])));
    }

    /// The number of a kind, which is added if it is new.
    fn number(&mut self, hash: u64, load: BlockLoad, warps: impl FnOnce() -> Option<Vec<Vec<Event>>>) -> u32 {
        if let Some(number) = self.numbers.get(&(hash, load)) {
            return *number;
        }
        let number = self.kinds.len() as u32;
        self.numbers.insert((hash, load), number);
        self.kinds.push(BlockKind { hash, load, warps: None });
        let is_kept = self.kept.len() < KEPT_TRACES
            || self.kept.last().is_some_and(|(last, at, _)| (hash, load) < (*last, *at));
        if is_kept && let Some(warps) = warps() {
            self.kinds[number as usize].warps = Some(warps);
            self.kept.insert((hash, load, number));
            if self.kept.len() > KEPT_TRACES
                && let Some((_, _, dropped)) = self.kept.pop_last()
            {
                self.kinds[dropped as usize].warps = None;
            }
        }
        number
    }

    /// All kinds, and the blocks with the number of their kind, both in an order that does not depend on workers.
    pub fn sorted(&self) -> (Vec<&BlockKind>, Vec<(u64, u32)>) {
        let mut order: Vec<usize> = (0..self.kinds.len()).collect();
        order.sort_by_key(|i| (self.kinds[*i].hash, self.kinds[*i].load));
        let mut numbers = vec![0; order.len()];
        for (number, i) in (0..).zip(&order) {
            numbers[*i] = number;
        }
        let mut blocks: Vec<(u64, u32)> =
            self.blocks.iter().map(|(block, kind)| (*block, numbers[*kind as usize])).collect();
        blocks.sort_unstable();
        (order.iter().map(|i| &self.kinds[*i]).collect(), blocks)
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, count: u32) -> Event {
        Event::Run { first, count }
    }

    #[test]
    fn an_event_divides_the_code_around_it() {
        let mut trace = WarpTrace::default();
        trace.enter(10, 8, 1);
        trace.add(13, Event::CommitProducts);
        trace.leave(16);
        assert_eq!(trace.finish(), [run(10, 3), Event::CommitProducts, run(14, 2)]);
    }

    #[test]
    fn polls_of_a_waiting_warp_are_forgotten() {
        let phase = Phase { object: 64, number: 0 };
        let trace = |polls: usize| {
            let mut trace = WarpTrace::default();
            trace.enter(0, 4, 1);
            for _ in 0..polls {
                trace.test(2, true, false, None);
                trace.enter(3, 1, 1);
                trace.enter(1, 3, 1);
            }
            trace.test(2, true, true, Some(phase));
            trace.enter(4, 6, 1);
            assert!(trace.events.len() < 10, "polls take no memory");
            trace.finish()
        };
        for polls in [0, 1, 7] {
            assert_eq!(trace(polls), [run(0, 2), Event::Await(phase), run(3, 1), run(4, 6)], "{polls} polls");
        }
    }

    #[test]
    fn work_between_two_tests_stays_in_the_trace() {
        let mut trace = WarpTrace::default();
        trace.enter(0, 4, 1);
        trace.test(2, false, false, None);
        trace.enter(3, 9, 1);
        trace.enter(1, 3, 1);
        trace.test(2, false, true, None);
        assert_eq!(trace.finish(), [run(0, 2), run(2, 1), run(3, 9), run(1, 3)]);
    }

    #[test]
    fn work_of_other_lanes_stays_in_the_trace() {
        let mut trace = WarpTrace::default();
        trace.enter(0, 4, 1);
        for _ in 0..3 {
            trace.test(2, true, false, None);
            trace.enter(20, 5, 2);
            trace.enter(1, 3, 1);
        }
        trace.test(2, true, true, None);
        assert_eq!(trace.finish(), [run(0, 2), run(20, 5), run(20, 5), run(20, 5), run(2, 2)]);
        // Two groups of lanes poll in the same code. The second one then works.
        let mut trace = WarpTrace::default();
        trace.enter(0, 4, 1);
        trace.test(2, false, false, None);
        trace.enter(0, 4, 2);
        trace.test(2, false, false, None);
        for _ in 0..3 {
            for lanes in [1, 2] {
                trace.enter(3, 1, lanes);
                trace.enter(1, 3, lanes);
                trace.test(2, true, false, None);
                trace.leave(3);
            }
        }
        trace.enter(30, 9, 2);
        trace.enter(1, 3, 2);
        trace.test(2, false, true, None);
        trace.enter(1, 3, 1);
        trace.test(2, true, true, None);
        let expected = [run(0, 2), run(0, 2), run(2, 1), run(30, 9), run(1, 3), run(2, 2)];
        assert_eq!(trace.finish(), expected);
        // Lanes that separate or leave do not poll.
        let mut trace = WarpTrace::default();
        trace.enter(0, 4, 3);
        trace.test(2, false, false, None);
        trace.enter(5, 5, 1);
        assert_eq!(trace.finish(), [run(0, 2), run(2, 1), run(5, 5)]);
    }

    #[test]
    fn kinds_of_blocks_depend_neither_on_the_order_nor_on_the_workers() {
        let run = |traces: &mut Traces, block: u64| {
            let mut warp = WarpTrace::default();
            // Blocks 0 and 50 are of one kind, 1 and 51 of another, and so on.
            warp.enter(0, 1 + (block % 50) as u32, 1);
            traces.add(
                block,
                BlockLoad { instructions: block % 50, ..BlockLoad::default() },
                [warp].iter_mut(),
            );
        };
        let (mut forwards, mut one, mut other) = <(Traces, Traces, Traces)>::default();
        (0..100).for_each(|block| run(&mut forwards, block));
        (0..100).rev().for_each(|block| run(if block % 3 == 0 { &mut one } else { &mut other }, block));
        one.merge(other);
        let ((kinds, blocks), (merged, same)) = (forwards.sorted(), one.sorted());
        assert_eq!(blocks, same);
        let described = |kinds: &[&BlockKind]| {
            kinds.iter().map(|kind| (kind.load, kind.warps.clone())).collect::<Vec<_>>()
        };
        assert_eq!(described(&kinds), described(&merged));
        assert_eq!((kinds.len(), blocks.len()), (50, 100));
        assert_eq!(kinds.iter().filter(|kind| kind.warps.is_some()).count(), KEPT_TRACES);
        assert!(blocks.iter().all(|(block, kind)| kinds[*kind as usize].load.instructions == block % 50));
    }
}
