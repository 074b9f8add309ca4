//! Barriers of a block: `bar` and `barrier`. Each block has sixteen of them. A fragment that arrives waits in the state
//! `Barrier` until all participants have arrived.

use super::Policy;
use super::block::Block;
use super::state::{Next, RunningWarp, State, Warp, WorkerState, spread};
use crate::check::collect::RawFinding;
use crate::check::{Kind, Severity, Site};
use crate::count::Phase;
use crate::isa::op::{BarMode, Class, Inst, Op};
use crate::lanes::lanes;
use crate::program::Function;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Splits the fragment at a guarded instruction. Lanes that the guard excludes continue with the next instruction.
    /// The current fragment keeps only the lanes that execute the instruction.
    pub fn split_guarded(&mut self, mask: u32) {
        if mask == self.frag.mask {
            return;
        }
        let mut rest = self.frag.clone();
        rest.mask &= !mask;
        rest.pc += 1;
        rest.state = State::Ready;
        self.w.fragments.push(rest);
        self.frag.mask = mask;
    }

    pub fn barrier(&mut self, inst: &Inst, mask: u32) -> Next {
        let Op::Barrier { mode, aligned, has_count, negate } = inst.op else { return Next::Continue };
        self.split_guarded(mask);
        let forced = self.frag.state == State::Forced;
        if aligned && mask != self.w.live && !forced {
            if P::CHECK {
                self.record_passed(self.w.live & !mask);
            }
            self.frag.state = State::Gathering;
            return Next::Park;
        }
        self.frag.state = State::Ready;
        let sources = inst.sources();
        let first = mask.trailing_zeros() as usize;
        let ids = *self.r32(sources[0]);
        let id = ids[first];
        let uniform = lanes(mask).all(|l| ids[l] == id);
        if id >= 16 || !uniform {
            let text = if uniform {
                format!("barrier {id} does not exist; a block has barriers 0 to 15")
            } else {
                "the lanes of the warp name different barriers".to_string()
            };
            self.halt(Kind::BarrierCount, mask, || text);
            return Next::Halt;
        }
        let count = has_count.then(|| self.r32(sources[1])[first]);
        if P::CHECK {
            self.check_barrier(aligned, forced, mask, count);
            if count.is_some() {
                self.check_phase(id, mask, mode == BarMode::Arrive);
            }
        }
        let (threads, live) = (self.block.threads, self.block.live_threads);
        let predicate = match mode {
            BarMode::RedPopc | BarMode::RedAnd | BarMode::RedOr => {
                let p = sources[sources.len() - 1];
                self.check_use(p, mask, "is reduced over a barrier");
                self.pred(p) ^ if negate { u32::MAX } else { 0 }
            }
            _ => 0,
        };
        let warp = self.w.id;
        let b = &mut self.block.barriers[id as usize];
        if b.arrived == 0 {
            b.expected = count;
            (b.popc, b.any, b.all) = (0, false, true);
        }
        // A barrier with a thread count counts whole warps: lanes that have exited arrive with the rest of their warp.
        let exited = if count.is_some() && mask == self.w.live { self.w.present & !self.w.live } else { 0 };
        let (known, arrived) = (b.expected, b.arrived + (mask | exited).count_ones());
        b.arrived = arrived;
        b.popc += (predicate & mask).count_ones();
        b.any |= predicate & mask != 0;
        b.all &= predicate & mask == mask;
        self.block.progress += 1;
        if P::CHECK {
            if known != count {
                let (a, b) = (known.unwrap_or(threads), count.unwrap_or(threads));
                self.finding(Kind::BarrierCount, mask, || {
                    format!("threads arrive at barrier {id} with different thread counts: {a} and {b}")
                });
            } else if arrived > known.unwrap_or(live) {
                let expected = known.unwrap_or(live);
                self.finding(Kind::BarrierCount, mask, || {
                    format!("{arrived} threads have arrived at barrier {id}, which expects {expected}")
                });
            }
        }
        if P::CHECK {
            self.block.races.bar_arrive(id, warp, mask, mode != BarMode::Arrive);
        }
        if P::COUNT {
            self.worker.counts.barriers += 1;
            self.trace_barrier(id, mode != BarMode::Arrive);
        }
        if mode == BarMode::Arrive {
            return Next::Continue;
        }
        self.frag.state = State::Barrier(id as u8);
        Next::Park
    }

    /// Checks that the warp is together. Threads that have exited do not count: a barrier waits only for the threads of
    /// the block that have not exited (from sm_70 on; confirmed on an H200).
    fn check_barrier(&mut self, aligned: bool, forced: bool, mask: u32, count: Option<u32>) {
        // Diverged lanes can arrive one after another and meet at the barrier. The barrier is then not forced, and no
        // divergence is reported.
        let elsewhere = self.skipped() | if forced { self.w.live & !mask } else { 0 };
        if aligned && elsewhere != 0 {
            self.finding(Kind::BarrierDivergence, mask, || divergent_barrier(elsewhere));
        }
        if let Some(n) = count
            && (n == 0 || n % 32 != 0)
        {
            self.finding(Kind::BarrierCount, mask, || {
                format!("the barrier expects {n} threads; the count must be a positive multiple of 32")
            });
        }
    }

    /// Reports an arrival that nothing orders after the end of the barrier's previous phase. It could as well have been
    /// counted in that phase, in the place of a thread that the phase waits for.
    fn check_phase(&mut self, id: u32, mask: u32, only_arrives: bool) {
        let (site, warp) = (self.site(mask), self.w.id);
        let (b, races) = (&mut self.block.barriers[id as usize], &self.block.races);
        // A warp may arrive and then wait in the same phase: it then completes the phase itself.
        let again =
            only_arrives && b.by_warp.iter().any(|(other, lanes)| *other == warp && lanes & mask != 0);
        b.by_warp.push((warp, mask));
        if again {
            self.finding(Kind::BarrierCount, mask, || {
                format!(
                    "the warp arrives twice at barrier {id} in one phase; it must wait for the end of the phase between the \
                     arrivals"
                )
            });
            return;
        }
        // A thread that has passed a wait since then may have learned it in a way that the race checker does not know.
        let is_known = |l: usize| self.w.last_wait[l] > b.ended;
        if b.waited.is_empty()
            || lanes(mask).any(is_known)
            || b.waited.iter().any(|moment| races.is_after(moment, site))
        {
            return;
        }
        self.finding(Kind::BarrierCount, mask, || {
            format!(
                "nothing orders this arrival at barrier {id} after the end of its previous phase, in which the warp did not \
                 wait: either two groups of warps use the same barrier, or the warp can arrive twice in one phase"
            )
        });
    }
}

/// The text of a finding about lanes that do not reach a barrier.
pub fn divergent_barrier(elsewhere: u32) -> String {
    format!(
        "the barrier is in divergent code: lanes {elsewhere:#010x} of the warp do not reach it with the others"
    )
}

impl Block {
    /// Releases the barriers at which all participants have arrived.
    pub fn complete_barriers<P: Policy>(&mut self, functions: &[Function], worker: &mut WorkerState) {
        for id in 0..16 {
            let b = &self.core.barriers[id];
            if b.arrived == 0 || b.arrived < b.expected.unwrap_or(self.core.live_threads) {
                continue;
            }
            let (popc, any, all, whole_block) = (b.popc, b.any, b.all, b.expected.is_none());
            self.core.barriers[id].arrived = 0;
            self.core.progress += 1;
            if P::CHECK {
                self.core.races.bar_complete(id as u32, whole_block);
                self.core.events += 1;
                self.core.barriers[id].ended = self.core.events;
                self.core.barriers[id].waited.clear();
                self.core.barriers[id].by_warp.clear();
            }
            if P::CHECK && whole_block && self.core.live_threads < self.core.threads {
                self.report_left_behind(id as u8, functions, worker);
            }
            let clocks = if P::COUNT { self.core.path.end_barrier(id) } else { 0 };
            if P::COUNT && self.core.traced {
                self.core.phases.complete(Phase::BLOCK_BARRIER + id as u64);
            }
            for w in &mut self.warps {
                for i in 0..w.fragments.len() {
                    if w.fragments[i].state == State::Barrier(id as u8) {
                        w.wait_until(clocks);
                        if P::CHECK && !whole_block {
                            let site = Site {
                                pc: 0,
                                block: self.core.index,
                                warp: w.id,
                                lanes: w.fragments[i].mask,
                            };
                            let moment = self.core.races.moment(site);
                            self.core.barriers[id].waited.push(moment);
                        }
                        release::<P>(w, i, functions, popc, any, all);
                    }
                }
                w.merge_ready();
            }
        }
    }
}

impl Block {
    /// Warns of a barrier for the whole block that some of its threads can no longer reach.
    fn report_left_behind(&self, id: u8, functions: &[Function], worker: &mut WorkerState) {
        let waiting = self.warps.iter().flat_map(|w| w.fragments.iter().map(move |f| (w.id, f)));
        let Some((warp, f)) = waiting.into_iter().find(|(_, f)| f.state == State::Barrier(id)) else {
            return;
        };
        let pc = functions[f.function as usize].first + f.pc;
        let site = Site { pc, block: self.core.index, warp, lanes: f.mask };
        let gone = self.core.threads - self.core.live_threads;
        let related = self.core.first_exit.map(|at| ("the first of them exits here".to_string(), at));
        let make = || RawFinding {
            severity: Severity::Warning,
            related: related.into_iter().collect(),
            ..RawFinding::new(
                Kind::BarrierDivergence,
                site,
                format!(
                    "{gone} threads of the block have exited and do not reach this barrier; GPUs do not wait for them, but CUDA \
                 requires that all threads of a block reach __syncthreads()"
                ),
            )
        };
        worker.findings.add_many((Kind::BarrierDivergence, pc, 0), Severity::Warning, site, 1, make);
    }
}

/// Writes the result of the reduction, if the barrier has one, and moves the fragment past the barrier.
fn release<P: Policy>(w: &mut Warp, i: usize, functions: &[Function], popc: u32, any: bool, all: bool) {
    let f = &mut w.fragments[i];
    let inst = &functions[f.function as usize].insts[f.pc as usize];
    f.state = State::Ready;
    f.pc += 1;
    let (mask, reg_base, pred_base) = (f.mask, f.reg_base as usize, f.pred_base as usize);
    let (Op::Barrier { mode, .. }, Some(d)) = (&inst.op, inst.results().first()) else { return };
    if d.class() == Class::Pred {
        let value = if *mode == BarMode::RedAnd { all } else { any };
        let p = &mut w.preds[pred_base + d.index()];
        *p = if value { *p | mask } else { *p & !mask };
        if P::CHECK {
            w.pred_undef[pred_base + d.index()] &= !mask;
        }
    } else {
        for l in lanes(mask) {
            w.regs[reg_base + d.index()].0[l] = popc;
        }
        if P::CHECK {
            w.undef[reg_base + d.index()] &= !spread(mask);
        }
    }
}
