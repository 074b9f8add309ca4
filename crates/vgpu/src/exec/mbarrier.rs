//! `mbarrier` objects: eight bytes of shared memory that hold a phase, the pending arrivals and the pending bytes.

use super::Policy;
use super::state::{
    AccessKind, Addresses, BarrierLog, Location, MAX_COUNT, Mbarrier, Next, Request, RunningWarp, Span,
    WINDOW, bytes_under_way, name_of, narrow, relative,
};
use crate::check::Kind;
use crate::check::race::Agent;
use crate::isa::op::{Inst, MbarrierOp, Op};
use crate::isa::types::Space;
use crate::lanes::{lanes, lanes_where};
use crate::mem::shadow;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Changes an mbarrier object and completes its phase if nothing is pending after the change. Returns the state
    /// before the change.
    pub fn mbarrier_update(&mut self, location: Location, lane: usize, f: impl FnOnce(&mut Mbarrier)) -> u64 {
        let at = location.host().cast::<u64>();
        // SAFETY: the span contains the object. Shared memory belongs to this worker.
        let old = unsafe { at.read_unaligned() };
        let mut b = Mbarrier::decode(old);
        if !b.valid {
            if P::CHECK {
                self.report_not_initialised(lane);
            }
            return old;
        }
        // The only arrival of a phase without bytes ends the phase, as its thread knows.
        let sole = b.pending == 1 && b.expected == 1 && b.tx == 0;
        f(&mut b);
        let sole = sole && b.pending == 0 && b.tx == 0;
        if b.pending < 0 {
            if P::CHECK {
                let over = -b.pending;
                let name = name_of(self.grid, (location.address - location.span.low) as u32);
                self.finding(Kind::BarrierCount, 1 << lane, || {
                    format!("the mbarrier {name} receives {over} more arrivals than it was initialised for")
                });
            }
            b.pending = 0;
        }
        let completed = b.complete();
        // SAFETY: as above.
        unsafe { at.write_unaligned(b.encode()) };
        if P::COUNT && completed {
            self.trace_phase_end(location);
        }
        if P::CHECK && completed {
            let at = (location.address - location.span.low) as u32;
            let site = self.site(1 << lane);
            let owner = self.owner(&location.span);
            let is_own = owner.is_none();
            let core = match owner {
                // SAFETY: `peer` is another block of the cluster. The same worker runs it.
                Some(peer) => unsafe { &mut *peer },
                None => &mut *self.block,
            };
            core.races.mbarrier_complete(at);
            core.events += 1;
            let log = core.barrier_logs.entry(at).or_default();
            log.complete();
            log.ended = core.events;
            if sole && is_own {
                log.observe(core.races.moment(site));
            }
        }
        self.block.progress += 1;
        old
    }

    pub fn mbarrier(&mut self, inst: &Inst, mask: u32) -> Next {
        let mut tested = None;
        let next = self.mbarrier_of_lanes(inst, mask, &mut tested);
        if P::COUNT
            && let Some((object, passed)) = tested
        {
            self.count_test(object, passed & mask == mask);
        }
        next
    }

    /// Executes the operation for some lanes. For a test, adds the lanes that pass to `tested`, with an object.
    fn mbarrier_of_lanes(&mut self, inst: &Inst, mask: u32, tested: &mut Option<(u64, u32)>) -> Next {
        let Op::Mbarrier { op, space, offset, .. } = inst.op else { return Next::Continue };
        let sources = inst.sources();
        if op == MbarrierOp::PendingCount {
            let tokens = *self.r64(sources[0]);
            self.set32(inst.r(0), &tokens.map(|t| Mbarrier::decode(t).pending as u32), mask);
            self.flow_any(inst, mask);
            return Next::Continue;
        }
        let mut ad = self.addresses(sources[0], offset, mask, 8);
        if space == Space::Generic {
            ad = relative(&ad, mask, self.grid.windows.shared);
        }
        if self.grid.is_clustered() {
            // The objects may be in different blocks. Handle one block per iteration.
            let window = |l: usize| ad.at[l] / WINDOW;
            let first = window(mask.trailing_zeros() as usize & 31);
            let group = lanes_where(mask, |l| window(l) == first);
            if group != mask {
                let next = self.mbarrier_of_lanes(inst, group, tested);
                if next == Next::Halt {
                    return next;
                }
                return self.mbarrier_of_lanes(inst, mask & !group, tested);
            }
        }
        let operand = sources.get(1).map_or([0; 32], |s| self.wide(*s));
        if P::CHECK
            && self.w.tracking
            && let Some(s) = sources.get(1)
        {
            self.check_use(*s, mask, "is used by a barrier");
        }
        let mut left = mask;
        let request = Request { kind: AccessKind::Atomic, space: Space::Shared, addresses: &ad, size: 8 };
        let Some((group, span)) = self.span(&request, &mut left) else {
            return if P::CHECK { Next::Continue } else { Next::Halt };
        };
        if P::CHECK {
            self.before_mbarrier(inst, &span, &ad.at, &operand, group);
        }
        if let MbarrierOp::TestWait { .. } = op {
            let passed = self.mbarrier_test(inst, &span, &ad, &operand, group);
            self.set_pred(inst.r(0), passed, group);
            self.define(inst, mask);
            let (_, all) = tested.get_or_insert((ad.at[group.trailing_zeros() as usize], 0));
            *all |= passed & group;
            // The warp polls, so other warps run first. Under checks it yields even if the wait passes. If the wait
            // passed too early, the warp then runs concurrently with the threads that it should have waited for.
            return if P::CHECK || passed & group != group { Next::YieldAfter } else { Next::Continue };
        }
        let mut tokens = [0u64; 32];
        for l in lanes(group) {
            let location = Location { span, address: ad.at[l] };
            tokens[l] = self.mbarrier_change(inst, location, operand[l] as u32, l);
        }
        if matches!(op, MbarrierOp::Arrive { .. }) && inst.results > 0 {
            self.set64(inst.r(0), &tokens, group);
            self.define(inst, mask);
        }
        Next::Continue
    }

    /// Tells the race checker about an operation, and checks the number of arrivals.
    fn before_mbarrier(&mut self, inst: &Inst, span: &Span, at: &[u64; 32], operand: &[u64; 32], group: u32) {
        let Op::Mbarrier { op, relaxed, .. } = inst.op else { return };
        if let Some(peer) = self.owner(span) {
            let site = self.site(group);
            self.block.races.remote_mbarrier(site, at);
            self.check_peer_runs(span, group);
            self.note_visit(span, group);
            if matches!(op, MbarrierOp::Arrive { .. } | MbarrierOp::CompleteTx) && !relaxed {
                let published = self.block.races.publish(self.w.id, group);
                let at = (at[group.trailing_zeros() as usize] - span.low) as u32;
                // SAFETY: `peer` is another block of the cluster. The same worker runs it.
                unsafe { (*peer).races.mbarrier_arrive_from(at, &published) };
            }
            // The store of `st.async` has completed.
            if op == MbarrierOp::CompleteTx && !relaxed {
                let (block, warp) = (self.block.index as u32, self.w.id);
                let mark = self.block.races.agent_mark(Agent::Copy, warp);
                for l in lanes(group) {
                    let (agent, at) = ((Agent::Copy, warp, l), (at[l] - span.low) as u32);
                    // SAFETY: as above.
                    unsafe { (*peer).races.mbarrier_arrive_copies_from(block, agent, at, mark) };
                }
            }
        } else {
            let (site, objects) = (self.site(group), narrow(at));
            let races = &mut self.block.races;
            match op {
                MbarrierOp::Init => races.mbarrier_init(site, &objects),
                MbarrierOp::Inval => races.mbarrier_invalidate(site, &objects),
                MbarrierOp::Arrive { .. } | MbarrierOp::ExpectTx | MbarrierOp::CompleteTx => {
                    races.mbarrier_arrive(site, &objects, !relaxed);
                    if op == MbarrierOp::CompleteTx && !relaxed {
                        let mark = races.agent_mark(Agent::Copy, site.warp);
                        for l in lanes(group) {
                            races.mbarrier_arrive_copies(Agent::Copy, site.warp, l, objects[l], mark);
                        }
                    }
                }
                _ => {}
            }
        }
        if let MbarrierOp::Arrive { expect, .. } = op
            && group.count_ones() > 1
        {
            let counted = inst.sources().len() > 1 && !expect;
            self.check_arrivals(span, at, group, |l| if counted { operand[l] as u32 } else { 1 });
        }
    }

    /// Performs a lane's operation on its object, except a test. Returns the state before an arrival.
    fn mbarrier_change(&mut self, inst: &Inst, location: Location, count: u32, lane: usize) -> u64 {
        let Op::Mbarrier { op, .. } = inst.op else { return 0 };
        let written = location.address as u32;
        if self.block.decoded.covers(written) || self.block.decoded.covers(written + 7) {
            self.block.shared_writes += 1;
        }
        match op {
            MbarrierOp::Init => {
                self.mbarrier_init(location, lane, count);
                0
            }
            MbarrierOp::Inval => {
                // SAFETY: the span contains the object.
                unsafe {
                    location.host().cast::<u64>().write_unaligned(0);
                    if P::CHECK {
                        location.state().write_bytes(shadow::NEVER, 8);
                    }
                }
                0
            }
            MbarrierOp::Arrive { drop, expect, .. } => {
                if P::CHECK && self.owner(&location.span).is_none() {
                    self.check_arrival(location, lane);
                    self.log_arrival(location.address, expect);
                }
                if P::COUNT {
                    self.trace_arrival(location);
                }
                let has_count = inst.sources().len() > 1;
                let (arrivals, bytes) =
                    if expect { (1, i64::from(count)) } else { (if has_count { count } else { 1 }, 0) };
                self.mbarrier_update(location, lane, |b| {
                    b.tx += bytes;
                    if drop {
                        b.expected = b.expected.saturating_sub(arrivals);
                    }
                    b.arrive(arrivals);
                })
            }
            MbarrierOp::ExpectTx => {
                if P::CHECK {
                    let at = self.at();
                    self.barrier_log(location.address).expected_at = Some(at);
                }
                self.mbarrier_update(location, lane, |b| b.tx += i64::from(count))
            }
            MbarrierOp::CompleteTx => self.mbarrier_update(location, lane, |b| b.tx -= i64::from(count)),
            MbarrierOp::TestWait { .. } | MbarrierOp::PendingCount => 0,
        }
    }

    /// Executes `test_wait` and `try_wait`. Returns the lanes whose phase is complete.
    fn mbarrier_test(
        &mut self,
        inst: &Inst,
        span: &Span,
        Addresses { at, survey }: &Addresses,
        operand: &[u64; 32],
        group: u32,
    ) -> u32 {
        let Op::Mbarrier { op: MbarrierOp::TestWait { parity, .. }, relaxed, .. } = inst.op else { return 0 };
        let mut passed = 0u32;
        if !P::CHECK && survey.min == survey.max {
            let location = Location { span: *span, address: survey.min };
            // SAFETY: the span contains the object.
            let phase = unsafe { Mbarrier::read(location) }.phase;
            let bit = if parity { 0 } else { 63 };
            for (l, operand) in operand.iter().enumerate() {
                passed |= u32::from((operand >> bit & 1 == 1) != phase) << l;
            }
            return passed;
        }
        for l in lanes(group) {
            let location = Location { span: *span, address: at[l] };
            let waited_for = if parity { operand[l] & 1 == 1 } else { operand[l] >> 63 == 1 };
            // SAFETY: the span contains the object.
            let mut now = unsafe { Mbarrier::read(location) };
            // Pending copies that report to this object land only when a thread must wait for them. The first test of a
            // warp fails: a thread that does not test again has not waited.
            if P::CHECK && now.phase == waited_for && self.w.tested.contains(&(at[l] as u32)) {
                self.copies_for_barrier(at[l] as u32);
                // SAFETY: as above.
                now = unsafe { Mbarrier::read(location) };
            }
            if P::CHECK && !now.valid {
                self.report_not_initialised(l);
            }
            passed |= u32::from(now.phase != waited_for) << l;
        }
        if P::CHECK {
            self.remember_tests(at, group, passed);
            self.log_waits(span, at, group, passed, parity);
            let (site, objects) = (self.site(group), narrow(at));
            self.w.last_poll = Some(site.pc);
            self.block.events += 1;
            for l in lanes(passed & group) {
                self.w.last_wait[l] = self.block.events;
            }
            self.block.races.mbarrier_wait(site, passed, &objects, !relaxed);
        }
        passed
    }

    fn report_not_initialised(&mut self, lane: usize) {
        self.finding(Kind::Uninitialised, 1 << lane, || {
            "the mbarrier object has not been initialised".to_string()
        });
    }

    /// Reports lanes of one warp whose simultaneous arrivals complete more than one phase.
    fn check_arrivals(&mut self, span: &Span, at: &[u64; 32], mask: u32, count: impl Fn(usize) -> u32) {
        let first = at[mask.trailing_zeros() as usize];
        let together = lanes_where(mask, |l| at[l] == first);
        let arrivals: i64 = lanes(together).map(|l| i64::from(count(l))).sum();
        // SAFETY: the span contains the object.
        let b = unsafe { Mbarrier::read(Location { span: *span, address: first }) };
        if b.valid && arrivals >= b.pending + i64::from(b.expected) && b.expected > 0 {
            let (expected, name) = (b.expected, name_of(self.grid, (first - span.low) as u32));
            self.finding(Kind::BarrierCount, together, || {
                format!(
                    "one warp arrives {arrivals} times at once at the mbarrier {name}, which was initialised for {expected} \
                     arrivals, so that more than one phase ends"
                )
            });
        }
    }

    fn barrier_log(&mut self, address: u64) -> &mut BarrierLog {
        self.block.barrier_logs.entry(address as u32).or_default()
    }

    /// Reports an arrival that nothing orders after the end of the phase before.
    fn check_arrival(&mut self, location: Location, lane: usize) {
        let (site, address) = (self.site(1 << lane), location.address as u32);
        let Some(log) = self.block.barrier_logs.get(&address) else { return };
        // A thread that has waited since then may have learned it in a way that the race checker does not know, such as
        // an arrival of `cp.async`.
        if self.w.last_wait[lane] > log.ended {
            return;
        }
        let races = &self.block.races;
        if log.knows_last_phase(site.warp, lane, |moment| races.is_after(moment, site)) {
            return;
        }
        // SAFETY: the span contains the object.
        let (phase, expected) = (log.phase, unsafe { Mbarrier::read(location) }.expected);
        let name = name_of(self.grid, address);
        self.finding(Kind::BarrierCount, 1 << lane, || {
            format!(
                "nothing orders this arrival in phase {phase} of the mbarrier {name} after the end of phase {}: either more \
                 threads arrive than the {expected} that it was initialised for, or the thread did not wait before",
                phase - 1
            )
        });
    }

    fn log_arrival(&mut self, address: u64, expect: bool) {
        let (at, warp) = (self.at(), self.w.id);
        let log = self.barrier_log(address);
        log.arrive(warp);
        if expect {
            log.expected_at = Some(at);
        }
    }

    /// Remembers the objects of failed tests, and forgets those of tests that pass.
    fn remember_tests(&mut self, at: &[u64; 32], group: u32, passed: u32) {
        for l in lanes(group) {
            let address = at[l] as u32;
            let known = self.w.tested.iter().position(|tested| *tested == address);
            match (passed >> l & 1 == 1, known) {
                (true, Some(index)) => {
                    self.w.tested.swap_remove(index);
                }
                (false, None) => self.w.tested.push(address),
                _ => {}
            }
        }
    }

    /// Records the lanes that tested mbarrier objects. The lanes in `passed` continue. If a lane passes twice for the
    /// same phase while bytes of the next phase are pending, it has mistaken the old phase for the new one. This is a
    /// finding.
    fn log_waits(&mut self, span: &Span, at: &[u64; 32], lanes: u32, passed: u32, parity: bool) {
        let mut left = lanes;
        while left != 0 {
            let address = at[left.trailing_zeros() as usize];
            let group = lanes_where(left, |l| at[l] == address);
            left &= !group;
            if group & !passed != 0 {
                self.w.last_barrier = Some(address as u32);
                continue;
            }
            self.w.last_barrier = None;
            let site = self.site(group);
            let races = &self.block.races;
            let log = self.block.barrier_logs.entry(address as u32).or_default();
            let knows = log.knows_phase_before(site.warp, group, |moment| races.is_after(moment, site));
            log.observe(races.moment(site));
            let (again, phase) = (log.pass(self.w.id, group), log.phase);
            if parity && !knows {
                self.report_unknown_phase(address, group, phase);
            }
            if !parity || again == 0 {
                continue;
            }
            // SAFETY: the span contains the object.
            let now = unsafe { Mbarrier::read(Location { span: *span, address }) };
            let bytes = bytes_under_way(&self.block.bulk, address as u32);
            if bytes > 0 || now.tx > 0 {
                let name = name_of(self.grid, address as u32);
                self.finding(Kind::BarrierPhase, again, || {
                    format!(
                        "phase {} of the mbarrier {name} satisfies the wait, but the thread has already waited for that \
                         phase; phase {phase} still expects {} bytes, and the thread must wait for parity {}",
                        phase.wrapping_sub(1) as i32,
                        bytes.max(now.tx.max(0) as u64),
                        u8::from(now.phase)
                    )
                });
            }
        }
    }

    /// Reports a wait that could have been satisfied by an older phase.
    fn report_unknown_phase(&mut self, address: u64, mask: u32, phases: u32) {
        let name = name_of(self.grid, address as u32);
        let (last, before) = (phases - 1, phases - 2);
        let older = match before.checked_sub(1) {
            Some(older) => format!("phase {older} has the same parity"),
            None => "a fresh object counts as having completed that parity".to_owned(),
        };
        self.finding(Kind::BarrierPhase, mask, || {
            format!(
                "nothing orders this wait for phase {last} of the mbarrier {name} after the end of phase {before}; while \
                 phase {before} is under way the wait is satisfied at once, because {older}"
            )
        });
    }

    fn mbarrier_init(&mut self, location: Location, lane: usize, count: u32) {
        if P::CHECK && (count == 0 || count > MAX_COUNT) {
            self.finding(Kind::BarrierCount, 1 << lane, || {
                format!("the thread initialises an mbarrier object for {count} arrivals; 1 to {MAX_COUNT} are allowed")
            });
        }
        let count = count.clamp(1, MAX_COUNT);
        if P::CHECK {
            self.block.barrier_logs.insert(location.address as u32, BarrierLog::default());
        }
        let b = Mbarrier { pending: i64::from(count), expected: count, tx: 0, phase: false, valid: true };
        // SAFETY: the span contains the object.
        unsafe {
            location.host().cast::<u64>().write_unaligned(b.encode());
            if P::CHECK {
                location.state().write_bytes(shadow::WRITTEN, 8);
            }
        }
        self.block.progress += 1;
    }
}
