//! `mbarrier` objects: eight bytes of shared memory that hold a phase, the pending arrivals and the pending bytes.
//!
use super::Policy;
use super::state::{
    BarrierLog, MAX_COUNT, Mbarrier, Next, RunningWarp, Span, Use, WINDOW, bytes_under_way, narrow, relative,
};
use crate::check::Kind;
use crate::isa::op::{Inst, MbarrierOp};
use crate::isa::types::Space;
use crate::mem::shadow;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// Changes an mbarrier object and completes its phase if nothing is pending after the change. Returns the state
    /// before the change.
    pub fn mbarrier_update(
        &mut self,
        span: &Span,
        address: u64,
        lane: usize,
        f: impl FnOnce(&mut Mbarrier),
    ) -> u64 {
        let at = span.host(address).cast::<u64>();
        // SAFETY: the span contains the object. Shared memory belongs to this worker.
        let old = unsafe { at.read_unaligned() };
        let mut b = Mbarrier::decode(old);
        if !b.valid {
            if P::CHECK {
                self.finding(Kind::Uninitialised, 1 << lane, || {
                    "the mbarrier object has not been initialised".to_string()
                });
            }
            return old;
        }
        f(&mut b);
        if b.pending < 0 {
            if P::CHECK {
                let over = -b.pending;
                self.finding(Kind::BarrierCount, 1 << lane, || {
                    format!("{over} arrivals more than the mbarrier object was initialised for")
                });
            }
            b.pending = 0;
        }
        let completed = b.complete();
        // SAFETY: as above.
        unsafe { at.write_unaligned(b.encode()) };
        if P::CHECK && completed {
            let at = (address - span.low) as u32;
            let core = match self.owner(span) {
                // SAFETY: `peer` is another block of the cluster. The same worker runs it.
                Some(peer) => unsafe { &mut *peer },
                None => &mut *self.block,
            };
            core.races.mbarrier_complete(at);
            core.barrier_logs.entry(at).or_default().complete();
        }
        self.block.progress += 1;
        old
    }

    #[allow(clippy::too_many_lines)] // A table: one arm per mbarrier operation.
    pub fn mbarrier(
        &mut self,
        inst: &Inst,
        op: MbarrierOp,
        space: Space,
        offset: i32,
        relaxed: bool,
        mask: u32,
    ) -> Next {
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
            let of = |l: usize| ad.at[l] / WINDOW;
            let first = of(mask.trailing_zeros() as usize & 31);
            let group = super::lanes(mask).filter(|l| of(*l) == first).fold(0u32, |m, l| m | 1 << l);
            if group != mask {
                let next = self.mbarrier(inst, op, space, offset, relaxed, group);
                if next == Next::Halt {
                    return next;
                }
                return self.mbarrier(inst, op, space, offset, relaxed, mask & !group);
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
        let Some((group, span)) = self.span(Space::Shared, &ad, 8, &mut left, Use::Atomic) else {
            return if P::CHECK { Next::Continue } else { Next::Halt };
        };
        let owner = self.owner(&span);
        if let Some(peer) = owner {
            if P::CHECK && matches!(op, MbarrierOp::Arrive { .. } | MbarrierOp::CompleteTx) && !relaxed {
                let published = self.block.races.publish(self.w.id, group);
                let at = (ad.at[group.trailing_zeros() as usize] - span.low) as u32;
                // SAFETY: `peer` is another block of the cluster. The same worker runs it.
                unsafe { (*peer).races.mbarrier_arrive_from(at, &published) };
            }
        } else if P::CHECK {
            let (at, objects) = (self.at(), narrow(&ad.at));
            let races = &mut self.block.races;
            match op {
                MbarrierOp::Init => races.mbarrier_init(self.w.id, group, at, &objects),
                MbarrierOp::Inval => races.mbarrier_invalidate(self.w.id, group, at, &objects),
                MbarrierOp::Arrive { .. } => races.mbarrier_arrive(self.w.id, group, at, &objects, !relaxed),
                MbarrierOp::ExpectTx | MbarrierOp::CompleteTx => {
                    races.mbarrier_arrive(self.w.id, group, at, &objects, !relaxed);
                }
                _ => {}
            }
        }
        let mut tokens = [0u64; 32];
        let mut done = 0u32;
        if P::CHECK && matches!(op, MbarrierOp::Arrive { .. }) && group.count_ones() > 1 {
            let expect = matches!(op, MbarrierOp::Arrive { expect: true, .. });
            let counted = sources.len() > 1 && !expect;
            self.check_crowd(&span, &ad.at, group, |l| if counted { operand[l] as u32 } else { 1 });
        }
        for l in super::lanes(group) {
            let address = ad.at[l];
            let count = operand[l] as u32;
            match op {
                MbarrierOp::Init => self.mbarrier_init(&span, address, l, count),
                MbarrierOp::Inval => {
                    // SAFETY: the span contains the object.
                    unsafe { span.host(address).cast::<u64>().write_unaligned(0) };
                    if P::CHECK {
                        // SAFETY: as above.
                        unsafe { span.state(address).write_bytes(shadow::NEVER, 8) };
                    }
                }
                MbarrierOp::Arrive { drop, expect, .. } => {
                    if P::CHECK && owner.is_none() {
                        self.log_arrival(address, expect);
                    }
                    let (arrivals, bytes) = if expect {
                        (1, i64::from(count))
                    } else {
                        (if sources.len() > 1 { count } else { 1 }, 0)
                    };
                    tokens[l] = self.mbarrier_update(&span, address, l, |b| {
                        b.tx += bytes;
                        if drop {
                            b.expected = b.expected.saturating_sub(arrivals);
                        }
                        b.arrive(arrivals);
                    });
                }
                MbarrierOp::ExpectTx => {
                    if P::CHECK {
                        let at = self.at();
                        let log = self.block.barrier_logs.entry(address as u32).or_default();
                        log.expected_at = Some(at);
                    }
                    self.mbarrier_update(&span, address, l, |b| b.tx += i64::from(count));
                }
                MbarrierOp::CompleteTx => {
                    self.mbarrier_update(&span, address, l, |b| b.tx -= i64::from(count));
                }
                MbarrierOp::TestWait { parity, .. } => {
                    // SAFETY: the span contains the object.
                    let read =
                        || Mbarrier::decode(unsafe { span.host(address).cast::<u64>().read_unaligned() });
                    let waited_for = if parity { operand[l] & 1 == 1 } else { operand[l] >> 63 == 1 };
                    let mut now = read();
                    // Pending copies that report to this object land only when a thread must wait for them.
                    if P::CHECK && now.phase == waited_for {
                        self.copies_for_barrier(address as u32);
                        now = read();
                    }
                    if P::CHECK && !now.valid {
                        self.finding(Kind::Uninitialised, 1 << l, || {
                            "the mbarrier object has not been initialised".to_string()
                        });
                    }
                    let passed = now.phase != waited_for;
                    done |= u32::from(passed) << l;
                }
                MbarrierOp::PendingCount => {}
            }
        }
        if P::CHECK
            && let MbarrierOp::TestWait { parity, .. } = op
        {
            self.log_waits(&span, &ad.at, group, done, parity);
            let (at, objects) = (self.at(), narrow(&ad.at));
            self.w.last_poll = Some(at);
            self.block.races.mbarrier_wait(self.w.id, group, done, at, &objects, !relaxed);
        }
        if P::CHECK && matches!(op, MbarrierOp::Init) {
            for l in super::lanes(group) {
                // SAFETY: the span contains the object.
                unsafe { span.state(ad.at[l]).write_bytes(shadow::WRITTEN, 8) };
            }
        }
        match op {
            MbarrierOp::TestWait { .. } => {
                self.set_pred(inst.r(0), done, group);
                self.define(inst, mask);
                // The warp polls, so other warps run first. Under checks it yields even if the wait passes. If the wait
                // passed too early, the warp then runs concurrently with the threads that it should have waited for.
                if P::CHECK || done & group != group {
                    return Next::YieldAfter;
                }
            }
            MbarrierOp::Arrive { .. } if inst.results > 0 => {
                self.set64(inst.r(0), &tokens, group);
                self.define(inst, mask);
            }
            _ => {}
        }
        Next::Continue
    }

    /// Reports lanes of one warp whose simultaneous arrivals complete more than one phase.
    fn check_crowd(&mut self, span: &Span, at: &[u64; 32], lanes: u32, count: impl Fn(usize) -> u32) {
        let first = at[lanes.trailing_zeros() as usize];
        let together = super::lanes(lanes).filter(|l| at[*l] == first).fold(0u32, |m, l| m | 1 << l);
        let arrivals: i64 = super::lanes(together).map(|l| i64::from(count(l))).sum();
        // SAFETY: the span contains the object.
        let b = Mbarrier::decode(unsafe { span.host(first).cast::<u64>().read_unaligned() });
        if b.valid && arrivals >= b.pending + i64::from(b.expected) && b.expected > 0 {
            let expected = b.expected;
            self.finding(Kind::BarrierCount, together, || {
                format!(
                    "{arrivals} arrivals of one warp at once, at an mbarrier object initialised for {expected}: they end \
                     more than one phase"
                )
            });
        }
    }

    fn log_arrival(&mut self, address: u64, expect: bool) {
        let (at, warp) = (self.at(), self.w.id);
        let log = self.block.barrier_logs.entry(address as u32).or_default();
        log.arrive(warp);
        if expect {
            log.expected_at = Some(at);
        }
    }

    /// Records the lanes that tested mbarrier objects. The lanes in `passed` continue. If a lane passes twice for the
    /// same phase while bytes of the next phase are pending, it has mistaken the old phase for the new one. This is a
    /// finding.
    fn log_waits(&mut self, span: &Span, at: &[u64; 32], lanes: u32, passed: u32, parity: bool) {
        let mut left = lanes;
        while left != 0 {
            let address = at[left.trailing_zeros() as usize];
            let group = super::lanes(left).filter(|l| at[*l] == address).fold(0u32, |m, l| m | 1 << l);
            left &= !group;
            if group & !passed != 0 {
                self.w.last_barrier = Some(address as u32);
                continue;
            }
            self.w.last_barrier = None;
            let log = self.block.barrier_logs.entry(address as u32).or_default();
            let (again, phase) = (log.pass(self.w.id, group), log.phase);
            if !parity || again == 0 {
                continue;
            }
            // SAFETY: the span contains the object.
            let now = Mbarrier::decode(unsafe { span.host(address).cast::<u64>().read_unaligned() });
            let bytes = bytes_under_way(&self.block.bulk, address as u32);
            if bytes > 0 || now.tx > 0 {
                self.finding(Kind::BarrierPhase, again, || {
                    format!(
                        "the wait is satisfied by phase {} of the mbarrier, which the thread has passed before; phase \
                         {phase} is under way, with {} bytes still to come: the parity to wait for is {}",
                        phase.wrapping_sub(1) as i32,
                        bytes.max(now.tx.max(0) as u64),
                        u8::from(now.phase)
                    )
                });
            }
        }
    }

    fn mbarrier_init(&mut self, span: &Span, address: u64, lane: usize, count: u32) {
        if P::CHECK && (count == 0 || count > MAX_COUNT) {
            self.finding(Kind::BarrierCount, 1 << lane, || {
                format!("mbarrier object initialised for {count} arrivals: 1 to {MAX_COUNT} are allowed")
            });
        }
        let count = count.clamp(1, MAX_COUNT);
        if P::CHECK {
            self.block.barrier_logs.insert(address as u32, BarrierLog::default());
        }
        let b = Mbarrier { pending: i64::from(count), expected: count, tx: 0, phase: false, valid: true };
        // SAFETY: the span contains the object.
        unsafe { span.host(address).cast::<u64>().write_unaligned(b.encode()) };
        self.block.progress += 1;
    }
}
