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
        if !self.is_full() {
            self.events.push(Event::Run { first, count });
        }
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

    /// Records that the warp runs a test of an mbarrier object. If it has polled since the same test failed, the code
    /// since then is forgotten, because a warp that polls has nothing else to do. Otherwise it did other work, and the
    /// test that failed is part of its code.
    pub fn end_of_poll(&mut self, at: u32, polled: bool) {
        let Some((failed, events)) = self.failed.take() else { return };
        if !polled {
            self.events.insert(events, Event::Run { first: failed, count: 1 });
            return;
        }
        let end = match self.events.last() {
            Some(Event::Run { first, count }) => first + count,
            _ => 0,
        };
        self.events.truncate(events);
        self.enter(at, end.saturating_sub(at));
    }

    /// Records that a test of an mbarrier object failed.
    pub fn failed(&mut self, at: u32) {
        self.leave(at);
        self.events.pop_if(|event| matches!(event, Event::Run { count: 0, .. }));
        self.failed = Some((at, self.events.len()));
    }

    /// Records that a test of an mbarrier object passed, because a phase has ended. Without a phase the object is fresh.
    pub fn passed(&mut self, at: u32, phase: Option<Phase>) {
        if let Some(phase) = phase {
            self.add(at, Event::Await(phase));
        }
    }

    /// Whether the trace has become too long.
    pub fn is_full(&self) -> bool {
        self.events.len() >= MAX_EVENTS
    }

    /// Ends the trace, and returns the events. Code of no instructions is left out.
    pub fn finish(&mut self) -> &[Event] {
        self.events.retain(|event| !matches!(event, Event::Run { count: 0, .. }));
        &self.events
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
        let warps: Vec<&[Event]> = warps
            .map(|warp| {
                is_whole &= !warp.is_full();
                warp.finish()
            })
            .collect();
        warps.hash(&mut hasher);
        let hash = hasher.finish();
        let number = self
            .number(hash, load, || is_whole.then(|| warps.iter().map(|events| events.to_vec()).collect()));
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

    #[test]
    fn an_event_divides_the_code_around_it() {
        let mut trace = WarpTrace::default();
        trace.enter(10, 8);
        trace.add(13, Event::CommitProducts);
        trace.leave(16);
        let expected =
            [Event::Run { first: 10, count: 3 }, Event::CommitProducts, Event::Run { first: 14, count: 2 }];
        assert_eq!(trace.finish().to_vec(), expected);
    }

    #[test]
    fn polls_of_a_waiting_warp_are_forgotten() {
        let phase = Phase { object: 64, number: 0 };
        let trace = |polls: usize| {
            let mut trace = WarpTrace::default();
            trace.enter(0, 4);
            for _ in 0..polls {
                trace.end_of_poll(2, true);
                trace.failed(2);
                trace.enter(3, 1);
                trace.enter(1, 3);
            }
            trace.end_of_poll(2, true);
            trace.passed(2, Some(phase));
            trace.enter(4, 6);
            trace.finish().to_vec()
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

    #[test]
    fn work_between_two_tests_stays_in_the_trace() {
        let mut trace = WarpTrace::default();
        trace.enter(0, 4);
        trace.failed(2);
        trace.enter(3, 9);
        trace.enter(1, 3);
        trace.end_of_poll(2, false);
        trace.passed(2, None);
        let run = |first, count| Event::Run { first, count };
        assert_eq!(trace.finish().to_vec(), [run(0, 2), run(2, 1), run(3, 9), run(1, 3)]);
    }

    #[test]
    fn kinds_of_blocks_depend_neither_on_the_order_nor_on_the_workers() {
        let run = |traces: &mut Traces, block: u64| {
            let mut warp = WarpTrace::default();
            // Blocks 0 and 50 are of one kind, 1 and 51 of another, and so on.
            warp.enter(0, 1 + (block % 50) as u32);
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
