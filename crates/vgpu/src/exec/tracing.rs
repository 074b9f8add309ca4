//! What the step loop and the instructions tell the counters about the course of a warp: the code that it runs, its polls,
//! and the events of its trace.

use super::Policy;
use super::state::{CLOCKS, Location, NANOSECONDS, Next, RunningWarp};
use crate::count::{Event, Phase};
use crate::isa::op::Inst;
use crate::lanes::lanes;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Counts the rest of a basic block, which the fragment is about to run. `first` is the function's first instruction.
    pub fn count_code(&mut self, first: u32, block_number: u32, length: u32) {
        let (at, mask) = (first + self.frag.pc, self.frag.mask);
        let counts = &mut self.worker.counts;
        counts.enter(at, length, mask);
        let clocks = counts.chains.length_from(self.frag.function, block_number, self.frag.pc);
        self.w.chain += clocks;
        self.w.polls.enter(at, length, mask, clocks);
        self.w.copy_groups.enter();
        if self.block.traced {
            self.w.trace.enter(at, length, mask);
        }
    }

    /// Adds an event of the current instruction to the warp's trace.
    #[inline]
    pub fn trace(&mut self, event: Event) {
        if P::COUNT && self.block.traced {
            let at = self.at();
            let load = &mut self.block.load;
            match event {
                Event::Load { bytes, .. } | Event::Copy { bytes, .. } => {
                    load.copied_bytes += u64::from(bytes);
                }
                Event::Product { .. } => {
                    let function = &self.grid.kernel.functions[self.frag.function as usize];
                    load.product_flops += u64::from(function.metas[self.frag.pc as usize].flops);
                }
                _ => {}
            }
            if !self.w.trace.is_full() {
                self.w.trace.add(at, event);
            }
        }
    }

    /// Executes `nanosleep`: other warps run first. Counts the time that it takes.
    pub fn nanosleep(&mut self, inst: &Inst, mask: u32) -> Next {
        if P::COUNT {
            let times = *self.r32(inst.r(0));
            let longest = lanes(mask).map(|l| times[l]).max().unwrap_or(0);
            // A GPU sleeps for at most a millisecond.
            let clocks = longest.min(1_000_000) * (CLOCKS / NANOSECONDS) as u32;
            self.w.chain += u64::from(clocks);
            self.w.polls.add_clocks(self.frag.mask, u64::from(clocks));
            self.trace(Event::Sleep { clocks });
        }
        Next::YieldAfter
    }

    /// Traces a copy that reports to an mbarrier object. Call it before the object changes.
    pub fn trace_load(&mut self, bytes: u32, barrier: Location) {
        if P::COUNT {
            self.block.path.copy(barrier.address, self.w.chain);
        }
        if P::COUNT && self.block.traced {
            let phase = self.block.phases.current(barrier.address);
            self.trace(Event::Load { bytes, phase });
        }
    }

    /// Traces an arrival at an mbarrier object. Call it before the object changes.
    pub fn trace_arrival(&mut self, location: Location) {
        if self.owner(&location.span).is_some() {
            return;
        }
        self.block.path.arrive(location.address, self.w.chain);
        if self.block.traced {
            let phase = self.block.phases.current(location.address);
            self.trace(Event::Arrive(phase));
        }
    }

    /// Traces the end of a phase of an mbarrier object.
    pub fn trace_phase_end(&mut self, location: Location) {
        let core = match self.owner(&location.span) {
            // SAFETY: `peer` is another block of the cluster. The same worker runs it.
            Some(peer) => unsafe { &mut *peer },
            None => &mut *self.block,
        };
        let object = location.address - location.span.low;
        core.path.end_phase(object);
        if core.traced {
            core.phases.complete(object);
        }
    }

    /// Traces an arrival at a barrier of the block, and the wait for it.
    pub fn trace_barrier(&mut self, id: u32, waits: bool) {
        self.block.path.arrive_at_barrier(id, self.w.chain);
        if self.block.traced {
            let phase = self.block.phases.current(Phase::BLOCK_BARRIER + u64::from(id));
            self.trace(Event::Arrive(phase));
            if waits {
                self.trace(Event::Await(phase));
            }
        }
    }

    /// Counts a test of an mbarrier object.
    pub fn count_test(&mut self, object: u64, passed: bool) {
        let at = self.at();
        let grid = self.grid;
        let here = (&grid.kernel.functions[self.frag.function as usize], at, self.frag.mask);
        let polled = self.w.polls.test(here, passed, &mut self.w.chain, &mut self.worker.counts);
        self.block.polled += polled.unwrap_or(0);
        if passed {
            self.w.wait_until(self.block.path.ended(object));
        }
        if self.block.traced {
            self.w.trace.test(at, polled.is_some(), passed, self.block.phases.last(object));
        }
    }
}
