//! The step loop: runs the fragments of one warp. It picks the fragment with the highest priority and runs it block by
//! block until it diverges, waits or uses up its slice.

use super::Policy;
use super::state::{Fragment, Frame, Next, Origin, RunningWarp, State, spread};
use crate::check::Kind;
use crate::isa::op::{Access, AtomOp, Class, Inst, Op, Order};
use crate::isa::types::Space;
use crate::lanes::{lanes, lanes_where};

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All lanes have exited.
    Done,
    /// No fragment can run until an event outside the warp happens.
    Blocked,
    /// The slice is over, or the warp polls and lets others run first.
    Yield,
    /// A fault, a trap or a limit has ended the launch.
    Halt,
}

/// Maximum number of call frames. Deeper recursion is reported as run-away.
const MAX_DEPTH: usize = 1024;
/// Maximum number of register units of a warp over all frames: 64 MiB.
const MAX_UNITS: usize = 1 << 19;
/// Number of blocks that a fragment may run while another fragment is ready. After that the fragment that has waited
/// longest gets a turn.
const FAIR_BLOCKS: u32 = 2048;

impl<P: Policy> RunningWarp<'_, '_, P> {
    fn rebase(&mut self) {
        let frame = self.w.regs.as_mut_ptr().wrapping_add(self.frag.reg_base as usize);
        let specials = self.w.specials.as_mut_ptr();
        self.bases = [frame, self.grid.constants.as_ptr().cast_mut(), specials, specials];
    }

    /// Priority of a fragment: deeper calls first, then earlier blocks.
    fn key(&self, f: &Fragment) -> (std::cmp::Reverse<usize>, u32, u32) {
        let function = &self.grid.kernel.functions[f.function as usize];
        let block = function.block_of[f.pc as usize];
        (std::cmp::Reverse(f.stack.len()), function.blocks[block as usize].priority, f.pc)
    }

    /// Merges fragments that are at the same instruction into this one.
    fn absorb(&mut self) {
        let mut i = 0;
        while i < self.w.fragments.len() {
            let other = &self.w.fragments[i];
            if matches!(other.state, State::Ready | State::Gathering) && self.frag.same_place(other) {
                self.frag.mask |= other.mask;
                self.w.fragments.swap_remove(i);
            } else {
                i += 1;
            }
        }
    }

    /// Whether another fragment should run before this one, which is ready.
    fn outranked(&self) -> bool {
        let own = self.key(&self.frag);
        self.w.fragments.iter().any(|f| matches!(f.state, State::Ready | State::Forced) && self.key(f) < own)
    }

    /// Puts a fragment back. Merges it with a fragment at the same instruction, if one exists. Lanes that gather there
    /// try again: all that they wait for may have arrived.
    fn put_back(&mut self, fragment: Fragment) {
        if fragment.mask == 0 {
            return;
        }
        if fragment.state == State::Ready || fragment.state == State::Gathering {
            for other in &mut self.w.fragments {
                if other.state == fragment.state && other.same_place(&fragment) {
                    other.mask |= fragment.mask;
                    other.state = State::Ready;
                    return;
                }
            }
        }
        self.w.fragments.push(fragment);
    }

    /// Picks the fragment to run: by priority or, with `fair`, the one that has waited longest.
    fn pick(&mut self, fair: bool) -> bool {
        let ready = self
            .w
            .fragments
            .iter()
            .enumerate()
            .filter(|(_, f)| matches!(f.state, State::Ready | State::Forced));
        let best = if fair {
            ready.min_by_key(|(_, f)| f.ran).map(|(i, _)| i)
        } else {
            ready.min_by_key(|(_, f)| self.key(f)).map(|(i, _)| i)
        };
        let Some(i) = best else { return false };
        self.frag = self.w.fragments.swap_remove(i);
        self.w.switches += 1;
        self.frag.ran = self.w.switches;
        self.rebase();
        true
    }

    /// Runs the warp until it is done, blocked, halted, or at the end of its slice (out of `fuel`).
    pub fn run(&mut self, mut fuel: u32) -> Stop {
        // A fragment that polled lets the others of its warp run: it may wait for them.
        let mut fair = std::mem::take(&mut self.w.polled);
        loop {
            if !self.pick(fair) {
                return if self.w.live == 0 { Stop::Done } else { Stop::Blocked };
            }
            let mut turn = FAIR_BLOCKS;
            let outcome = self.run_fragment(&mut fuel, &mut turn, fair);
            let fragment = std::mem::replace(&mut self.frag, Fragment::new(0));
            self.put_back(fragment);
            match outcome {
                Outcome::Switch => fair = false,
                Outcome::Unfair => fair = true,
                Outcome::Poll => {
                    self.w.polled = true;
                    return Stop::Yield;
                }
                Outcome::Yield => return if self.w.live == 0 { Stop::Done } else { Stop::Yield },
                Outcome::Halt => return Stop::Halt,
            }
        }
    }

    /// Whether another fragment of the warp must run before the next block of this one.
    #[inline(always)]
    fn must_switch(&mut self, turn: &mut u32, fair: bool) -> Option<Outcome> {
        if self.frag.state == State::Ready {
            self.absorb();
        }
        if fair {
            // This fragment has a turn regardless of its priority. After the turn, priority decides again.
            *turn = turn.saturating_sub(1);
            return (*turn == 0).then_some(Outcome::Switch);
        }
        if self.outranked() {
            return Some(Outcome::Switch);
        }
        self.w.passed_over += 1;
        if self.w.passed_over < FAIR_BLOCKS {
            return None;
        }
        self.w.passed_over = 0;
        Some(Outcome::Unfair)
    }

    /// The lanes that execute an instruction: those that its guard selects.
    #[inline(always)]
    fn guarded(&mut self, inst: &Inst) -> u32 {
        if inst.guard.is_always() {
            return self.frag.mask;
        }
        let p = self.w.preds[self.frag.pred_base as usize + inst.guard.pred()];
        if P::CHECK && self.w.tracking {
            self.check_guard(inst);
        }
        self.frag.mask & if inst.guard.negated() { !p } else { p }
    }

    /// The interpreter loop. Its common cases are inline for speed.
    fn run_fragment(&mut self, fuel: &mut u32, turn: &mut u32, fair: bool) -> Outcome {
        let kernel = self.grid.kernel;
        'blocks: loop {
            if self.frag.mask == 0 {
                return Outcome::Switch;
            }
            if !self.w.fragments.is_empty()
                && let Some(outcome) = self.must_switch(turn, fair)
            {
                return outcome;
            }
            let function = &kernel.functions[self.frag.function as usize];
            let block_number = function.block_of[self.frag.pc as usize];
            let block = &function.blocks[block_number as usize];
            let end = block.end;
            if P::CHECK {
                self.block.touched |= block.touches;
            }
            let length = end - self.frag.pc;
            // A block that is longer than the slice still runs, so that a slice is never empty.
            if *fuel == 0 {
                return Outcome::Yield;
            }
            // Watch only when the warp continues. A warp whose slice is over has not returned to a state.
            if P::CHECK && self.worker.watching {
                self.watch();
            }
            *fuel = fuel.saturating_sub(length);
            self.worker.executed += u64::from(length);
            let entered = self.frag.mask;
            if P::COUNT {
                self.count_code(function.first, block_number, length);
            }
            while self.frag.pc < end {
                let inst = &function.insts[self.frag.pc as usize];
                let mask = self.guarded(inst);
                if mask == 0 {
                    self.frag.pc += 1;
                    continue;
                }
                if P::CHECK && self.w.flight.any {
                    self.check_flight(inst, mask);
                }
                match &inst.op {
                    Op::Lane { f, imm, flow } => {
                        // SAFETY: the decoder has checked that the registers have the widths of the function.
                        unsafe {
                            f(
                                self.reg(inst.r(0)),
                                self.reg(inst.r(1)),
                                self.reg(inst.r(2)),
                                self.reg(inst.r(3)),
                                mask,
                                *imm,
                            );
                        }
                        if P::CHECK && self.w.tracking {
                            self.flow_lane(inst, *flow, *imm, mask);
                        }
                    }
                    Op::Test { f, combine, negate } => self.test(inst, *f, *combine, *negate, mask),
                    Op::Branch { target } => {
                        let taken = function.blocks[*target as usize].start;
                        if mask == self.frag.mask {
                            self.frag.pc = taken;
                        } else {
                            self.diverge(mask, taken);
                            return Outcome::Switch;
                        }
                        continue 'blocks;
                    }
                    Op::Load(access) if !P::COUNT && access.quick => {
                        if !self.load_quick(inst, access, mask) && self.load(inst, access, mask) == Next::Halt
                        {
                            return Outcome::Halt;
                        }
                    }
                    Op::Store(access) if !P::COUNT && access.quick => {
                        self.block.shared_writes += u64::from(access.space == Space::Shared);
                        if !self.store_quick(inst, access, mask)
                            && self.store(inst, access, mask) == Next::Halt
                        {
                            return Outcome::Halt;
                        }
                    }
                    _ => match self.execute(inst, mask) {
                        Step::Next => {}
                        Step::Jumped => continue 'blocks,
                        Step::Stop(outcome) => {
                            self.uncount_rest(end, entered);
                            return outcome;
                        }
                    },
                }
                self.frag.pc += 1;
            }
        }
    }

    /// Ends the turn of a warp that polls: its lanes get the values that they got when they were here last, and the block
    /// has changed nothing since. Only others can change what they wait for. Under checks the turn also ends when the
    /// values have changed: all that poll must see a change before one of them acts on it ([`Self::must_hand_over`]).
    fn after_look(&mut self, inst: &Inst, access: &Access, mask: u32) -> Next {
        let now = (self.at(), self.frag.mask, self.block.progress);
        if now != self.w.look.0 {
            self.w.look = (now, None);
            return Next::Continue;
        }
        let registers = inst.results().iter().chain(&inst.sources()[..1]);
        let found = registers
            .flat_map(|r| self.wide(*r))
            .fold(0u64, |all, v| (all ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
        match self.w.look.1.replace(found) {
            Some(before) if before == found => {
                if P::CHECK {
                    self.grid.polls.add(u64::from(self.at()) << 2);
                    let at = self.wide(inst.sources()[0]);
                    lanes(mask).for_each(|l| self.grid.polled.add(at[l].wrapping_add(access.offset as u64)));
                }
                Next::YieldAfter
            }
            Some(_) if P::CHECK => Next::YieldAfter,
            _ => Next::Continue,
        }
    }

    /// A store that other blocks may wait for.
    fn store_in_turn(&mut self, inst: &Inst, access: &Access, mask: u32) -> Next {
        if self.must_hand_over(inst, access, mask) {
            return Next::Again;
        }
        match self.store(inst, access, mask) {
            Next::Continue => self.after_change(inst, access, mask),
            next => next,
        }
    }

    fn atom_in_turn(&mut self, inst: &Inst, access: &Access, mask: u32) -> Next {
        if self.must_hand_over(inst, access, mask) {
            return Next::Again;
        }
        let before = self.block.progress;
        match self.atom(inst, access, mask) {
            Next::Continue if self.block.progress != before => self.after_change(inst, access, mask),
            Next::Continue => self.after_look(inst, access, mask),
            next => next,
        }
    }

    /// Notes a change of a word that others poll.
    fn after_change(&mut self, inst: &Inst, access: &Access, mask: u32) -> Next {
        self.block.owes_turn |= P::CHECK && self.is_polled(inst, access, mask);
        Next::Continue
    }

    /// Ends the turn of the block before it changes a word that others poll for the second time. They must see the first
    /// change before: if they saw both at once, they would also be ordered after what the block does in between, and the
    /// races with that would not be found.
    fn must_hand_over(&mut self, inst: &Inst, access: &Access, mask: u32) -> bool {
        let must = P::CHECK
            && self.block.owes_turn
            && !self.grid.polls.contains(u64::from(self.at()) << 2)
            && !self.only_looks(inst, mask)
            && self.is_polled(inst, access, mask);
        self.block.hands_over |= must;
        must
    }

    /// Whether an atomic only reads memory: code polls with additions of zero and with compare-and-swaps.
    fn only_looks(&self, inst: &Inst, mask: u32) -> bool {
        match inst.op {
            Op::Atom { op: AtomOp::Cas, .. } => true,
            Op::Atom { op: AtomOp::Add | AtomOp::Or | AtomOp::Xor, .. } => {
                let operand = self.wide(inst.sources()[1]);
                lanes(mask).all(|l| operand[l] == 0)
            }
            _ => false,
        }
    }

    fn is_polled(&self, inst: &Inst, access: &Access, mask: u32) -> bool {
        if self.grid.polled.is_empty() {
            return false;
        }
        let at = self.wide(inst.sources()[0]);
        lanes(mask).any(|l| self.grid.polled.contains(at[l].wrapping_add(access.offset as u64)))
    }

    /// Corrects the counts of a fragment that stops before the end of its block. The remaining instructions were
    /// counted at the start of the block but have not run yet.
    fn uncount_rest(&mut self, end: u32, entered: u32) {
        // A fragment that waits at a barrier has already executed the barrier instruction.
        let done = matches!(self.frag.state, State::Barrier(_));
        let (pc, function) = (self.frag.pc + u32::from(done), self.function());
        if self.frag.mask == 0
            || pc >= end
            || function.blocks[function.block_of[pc as usize] as usize].end != end
        {
            return;
        }
        let first = function.first;
        self.worker.executed -= u64::from(end - pc);
        if P::COUNT {
            self.worker.counts.leave(first + pc, end - pc, entered);
            self.w.polls.leave(first + pc, self.frag.mask);
            self.w.trace.leave(first + pc);
        }
    }

    /// Splits the fragment at a branch: some lanes branch, the others fall through. The earlier of the two runs next.
    fn diverge(&mut self, taken: u32, target: u32) {
        let other = self.fork(taken, target);
        self.frag.mask &= !taken;
        self.frag.pc += 1;
        self.frag.state = State::Ready;
        if P::COUNT {
            self.worker.counts.divergent += 1;
        }
        self.put_back(other);
    }

    /// Executes all instructions except the most common arithmetic and branches.
    #[inline(never)]
    fn execute(&mut self, inst: &Inst, mask: u32) -> Step {
        self.block.shared_writes += u64::from(inst.writes_shared);
        let next = match &inst.op {
            Op::Lane { .. } | Op::Test { .. } | Op::Branch { .. } => Next::Continue,
            Op::Load(access) => match self.load(inst, access, mask) {
                Next::Continue if access.order != Order::Weak => self.after_look(inst, access, mask),
                next => next,
            },
            Op::Store(access) if access.order != Order::Weak => self.store_in_turn(inst, access, mask),
            Op::Store(access) => self.store(inst, access, mask),
            Op::LoadParam { ty, vector, offset } => self.load_param(inst, *ty, *vector, *offset, mask),
            Op::Atom { access, .. } => self.atom_in_turn(inst, access, mask),
            Op::Set { f, combine, negate, truth } => {
                self.set_by_test(inst, *f, (*combine, *negate), *truth, mask)
            }
            Op::Select { negate } => self.select(inst, *negate, mask),
            Op::PredLogic { op, negate } => self.pred_logic(inst, *op, *negate, mask),
            Op::PredMove { negate } => self.pred_move(inst, *negate, mask),
            Op::PredSet { value } => self.pred_set(inst, *value, mask),
            Op::Convert { cvt, pair } => self.convert(inst, *cvt, *pair, mask),
            Op::Pack { bits } => self.pack(inst, u32::from(*bits), mask),
            Op::Unpack { bits } => self.unpack(inst, u32::from(*bits), mask),
            Op::Carry { kind, carry_in, carry_out, signed } => {
                self.carry(inst, *kind, (*carry_in, *carry_out), *signed, mask)
            }
            Op::LocalAddress { offset } => self.local_address(inst, *offset, mask),
            Op::IsSpace { space } => self.is_space(inst, *space, mask),
            Op::Nop | Op::GridDependency { .. } => Next::Continue,
            Op::Texture(fetch) => self.texture_fetch(inst, *fetch, mask),
            Op::Fence { scope } => self.fence(*scope, mask),
            Op::CopyAsync { .. } => self.copy_async(inst, mask),
            Op::CopyBulk { .. } => self.copy_bulk(inst, mask),
            Op::StoreBulk { .. } => self.store_bulk(inst, mask),
            Op::TensorLoad(access) => self.tensor_load(inst, *access, mask),
            Op::TensorStore(access) => self.tensor_store(inst, *access, mask),
            Op::ReplaceInMap { field, space, offset } => {
                self.replace_in_map(inst, *field, *space, *offset, mask)
            }
            Op::CopyMap { dst_offset, src_offset } => self.copy_map(inst, *dst_offset, *src_offset, mask),
            Op::BulkCommit => self.bulk_commit(mask),
            Op::BulkWait { keep, read } => self.bulk_wait(*keep, *read, mask),
            Op::ProxyFence { space } => self.proxy_fence(*space, mask),
            Op::MapFence { offset } => self.fence_map(inst, *offset, mask),
            Op::CopyCommit => self.copy_commit(mask),
            Op::CopyWait { keep, all } => self.copy_wait(*keep, *all, mask),
            Op::CopyMbarrierArrive { .. } => self.copy_mbarrier_arrive(inst, mask),
            Op::Mbarrier { .. } => self.mbarrier(inst, mask),
            Op::BranchIndexed { targets } => return self.branch_indexed(inst, targets, mask),
            Op::Call { function } => return self.call(inst, *function, 0, mask),
            Op::CallIndirect => return self.call_indirect(inst, mask),
            Op::Return => return self.ret(inst, mask),
            Op::Exit => {
                self.exit(mask);
                if self.frag.mask == 0 {
                    return Step::Stop(Outcome::Switch);
                }
                Next::Continue
            }
            Op::Trap { what } => {
                self.halt(Kind::Trap, mask, || format!("the kernel executed `{what}`"));
                Next::Halt
            }
            Op::Printf => self.printf(inst, mask),
            Op::AssertFail => {
                let text = self.assert_text(inst, mask);
                self.halt(Kind::Trap, mask, || text);
                Next::Halt
            }
            Op::Malloc => self.malloc(inst, mask),
            Op::Free => self.free(inst, mask),
            Op::GridWorkspace { high } => self.grid_workspace(inst, *high, mask),
            Op::Nanosleep => self.nanosleep(inst, mask),
            Op::Barrier { .. } => self.barrier(inst, mask),
            Op::WarpSync => self.warp_sync(inst, mask),
            Op::ClusterBarrier { arrive, relaxed, aligned } => {
                self.cluster_barrier(*arrive, *relaxed, *aligned, mask)
            }
            Op::MapAddress { generic } => self.map_address(inst, *generic, mask),
            Op::BlockOfAddress { generic } => self.block_of_address(inst, *generic, mask),
            Op::Shuffle { .. } | Op::Vote { .. } | Op::Match { .. } | Op::Redux { .. } | Op::Elect => {
                self.warp_op(inst, mask)
            }
            Op::LoadMatrix { .. }
            | Op::StoreMatrix { .. }
            | Op::MoveMatrix
            | Op::WmmaLoad(_)
            | Op::WmmaStore(_)
            | Op::Mma(_) => self.tensor(inst, mask),
            Op::Wgmma(w) => self.wgmma(inst, w, mask),
            Op::WgmmaFence | Op::WgmmaCommit | Op::WgmmaWait { .. } => self.wgmma_group(inst, mask),
            Op::SetMaxRegisters { count, increase } => self.set_max_registers(*count, *increase, mask),
            Op::ActiveMask => self.active_mask(inst, mask),
            Op::Clock { global, high } => self.clock(inst, *global, *high, mask),
        };
        self.step_after(next)
    }

    fn step_after(&mut self, next: Next) -> Step {
        match next {
            Next::Continue => Step::Next,
            Next::Park => Step::Stop(Outcome::Switch),
            Next::YieldAfter => {
                self.frag.pc += 1;
                Step::Stop(Outcome::Poll)
            }
            Next::Again => Step::Stop(Outcome::Poll),
            Next::Halt => Step::Stop(Outcome::Halt),
        }
    }

    fn branch_indexed(&mut self, inst: &Inst, targets: &[u32], mask: u32) -> Step {
        self.check_use(inst.r(0), mask, "decides a branch");
        let index = *self.r32(inst.r(0));
        let pc = self.frag.pc;
        let lanes_out = lanes_where(mask, |l| index[l] as usize >= targets.len());
        if lanes_out != 0 {
            self.halt(Kind::Trap, lanes_out, || "the index of a branch table is out of range".to_string());
            return Step::Stop(Outcome::Halt);
        }
        let function = &self.grid.kernel.functions[self.frag.function as usize];
        let mut left = mask;
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let target = function.blocks[targets[index[first] as usize] as usize].start;
            let group =
                lanes_where(left, |l| function.blocks[targets[index[l] as usize] as usize].start == target);
            left &= !group;
            if group == self.frag.mask {
                self.frag.pc = target;
                return Step::Jumped;
            }
            let other = self.fork(group, target);
            self.put_back(other);
        }
        self.frag.mask &= !mask;
        self.frag.pc = pc + 1;
        Step::Stop(Outcome::Switch)
    }

    /// Calls through a pointer. Lanes that call the same function run together. The other lanes become separate
    /// fragments.
    fn call_indirect(&mut self, inst: &Inst, mask: u32) -> Step {
        let target = inst.sources()[0];
        self.check_use(target, mask, "is called as a function");
        let pointers = *self.r64(target);
        let wanted = pointers[mask.trailing_zeros() as usize];
        let group = lanes_where(mask, |l| pointers[l] == wanted);
        let kernel = self.grid.kernel;
        let found = kernel.targets.iter().find(|(address, _)| *address == wanted).map(|(_, f)| *f);
        let fits = found.filter(|f| {
            let callee = &kernel.functions[*f as usize];
            callee.params.len() + 1 == inst.sources().len()
                && callee.return_words as usize == inst.results().len()
        });
        let Some(function) = fits else {
            self.halt(Kind::Trap, group, || {
                format!("a thread calls {wanted:#x}, which is not a function with these parameters")
            });
            return Step::Stop(Outcome::Halt);
        };
        if group != mask {
            // Forced state: otherwise this fragment would be merged again, and the lanes would never separate.
            let mut rest = self.frag.clone();
            rest.mask = mask & !group;
            rest.state = State::Forced;
            self.w.fragments.push(rest);
            self.frag.mask &= !(mask & !group);
        }
        self.frag.state = State::Ready;
        self.call(inst, function, 1, group)
    }

    /// Lets the lanes that the guard excludes continue with the next instruction. The fragment keeps the others.
    fn split_rest(&mut self, mask: u32) {
        if mask != self.frag.mask {
            let rest = self.fork(self.frag.mask & !mask, self.frag.pc + 1);
            self.put_back(rest);
            self.frag.mask = mask;
        }
    }

    /// A fragment of some lanes of this one, ready to run at an instruction of the same function.
    fn fork(&self, mask: u32, pc: u32) -> Fragment {
        Fragment { mask, pc, state: State::Ready, ..self.frag.clone() }
    }

    /// Enters a function. Its arguments are the sources from `first` on.
    fn call(&mut self, inst: &Inst, function: u32, first: usize, mask: u32) -> Step {
        let caller = &self.grid.kernel.functions[self.frag.function as usize];
        let callee = &self.grid.kernel.functions[function as usize];
        let reg_base = self.frag.reg_base + caller.frame.units;
        // 64-bit registers must be aligned to two units.
        let reg_base = reg_base.next_multiple_of(2);
        let pred_base = self.frag.pred_base + caller.frame.preds;
        let local_base = self.frag.local_base + caller.local_bytes;
        let units = (reg_base + callee.frame.units) as usize;
        if self.frag.stack.len() >= MAX_DEPTH || units > MAX_UNITS {
            let depth = self.frag.stack.len();
            self.halt(Kind::Runaway, mask, || format!("the recursion is {depth} calls deep"));
            return Step::Stop(Outcome::Halt);
        }
        self.w.reserve(units, (pred_base + callee.frame.preds) as usize, P::CHECK);
        if !self.reserve_local((local_base + callee.local_bytes) as usize) {
            self.halt(Kind::Runaway, mask, || "the stack in local memory is exhausted".to_string());
            return Step::Stop(Outcome::Halt);
        }
        self.split_rest(mask);
        let old_base = self.frag.reg_base as usize;
        for (from, to) in inst.sources()[first..].iter().zip(&callee.params) {
            self.copy_between(old_base + from.index(), reg_base as usize + to.index(), mask);
        }
        self.frag.stack.push(Frame {
            function: self.frag.function,
            pc: self.frag.pc,
            reg_base: self.frag.reg_base,
            pred_base: self.frag.pred_base,
            local_base: self.frag.local_base,
        });
        self.frag.function = function;
        self.frag.pc = 0;
        self.frag.reg_base = reg_base;
        self.frag.pred_base = pred_base;
        self.frag.local_base = local_base;
        self.rebase();
        self.enter_frame(mask);
        Step::Jumped
    }

    /// Marks the registers that may be read before they are written.
    pub fn enter_frame(&mut self, mask: u32) {
        let function = &self.grid.kernel.functions[self.frag.function as usize];
        for slot in &function.frame.undefined {
            match slot.class() {
                Class::Pred => self.set_pred(*slot, 0, mask),
                Class::R32 => self.set32(*slot, &[0; 32], mask),
                Class::R64 => self.set64(*slot, &[0; 32], mask),
            }
            if P::CHECK {
                self.mark_undefined(*slot, mask, Origin::register());
            }
        }
    }

    fn copy_between(&mut self, from: usize, to: usize, mask: u32) {
        let source = self.w.regs[from].0;
        let d = &mut self.w.regs[to].0;
        for l in lanes(mask) {
            d[l] = source[l];
        }
        if P::CHECK {
            let planes = spread(mask);
            self.w.undef[to] = self.w.undef[to] & !planes | self.w.undef[from] & planes;
            self.w.origin[to] = self.w.origin[from];
        }
    }

    fn ret(&mut self, inst: &Inst, mask: u32) -> Step {
        let Some(frame) = self.frag.stack.last().copied() else {
            self.exit(mask);
            return Step::Stop(Outcome::Switch);
        };
        let caller = &self.grid.kernel.functions[frame.function as usize];
        let call = &caller.insts[frame.pc as usize];
        for (from, to) in inst.sources().iter().zip(call.results()) {
            self.copy_between(
                self.frag.reg_base as usize + from.index(),
                frame.reg_base as usize + to.index(),
                mask,
            );
        }
        self.split_rest(mask);
        self.frag.stack.pop();
        self.frag.function = frame.function;
        self.frag.pc = frame.pc + 1;
        self.frag.reg_base = frame.reg_base;
        self.frag.pred_base = frame.pred_base;
        self.frag.local_base = frame.local_base;
        self.rebase();
        Step::Jumped
    }

    fn exit(&mut self, mask: u32) {
        self.copies_at_exit(mask);
        self.bulk_at_exit(mask);
        if P::CHECK {
            self.block.races.exit(self.w.id, mask);
        }
        self.frag.mask &= !mask;
        self.w.live &= !mask;
        self.block.live_threads -= mask.count_ones();
        self.block.progress += 1;
        let at = self.at();
        self.block.first_exit.get_or_insert(at);
        // Lanes that gather may have waited for these.
        for f in &mut self.w.fragments {
            if f.state == State::Gathering {
                f.state = State::Ready;
            }
        }
        // The cluster barrier does not wait for threads that have exited, and does not count their arrivals.
        if let Some(member) = &self.block.membership {
            let cluster = &member.cluster;
            let phase = cluster.phase.get();
            let had_arrived = lanes(mask).filter(|l| self.w.cluster_phase[*l] == phase + 1).count();
            cluster.arrived.set(cluster.arrived.get().saturating_sub(had_arrived as u32));
            cluster.settle();
        }
        if self.w.live == 0 {
            self.block.committed[self.w.id as usize] = u32::MAX;
        }
    }
}

enum Outcome {
    /// Another fragment may run.
    Switch,
    /// Another fragment has waited long enough and gets a turn.
    Unfair,
    /// The slice is over.
    Yield,
    /// The fragment polls, and lets others run first.
    Poll,
    Halt,
}

enum Step {
    Next,
    Jumped,
    Stop(Outcome),
}
