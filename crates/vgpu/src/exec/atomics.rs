//! Executes `atom` and `red`. Each lane's update is one atomic operation of the host, so blocks on other worker threads
//! see either the old or the new value.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Policy;
use super::memory::all_defined;
use super::state::{
    AccessKind, Addresses, Location, Next, Origin, Request, RunningWarp, Source, Span, spread,
};
use crate::isa::op::{Access, AtomOp, Inst, Op, Slot};
use crate::isa::types::Ty;
use crate::lanes::lanes;
use crate::mem::shadow;
use crate::num::float::MinMax;
use crate::num::half::{self, HalfMods, HalfOp, HalfTy};

/// Computes the new value of a location. `b` is the operand, `c` the swap value of a compare-and-swap.
pub fn combine(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    let half = |t: HalfTy| {
        let (x, y) = (old as u32, b as u32);
        let one = |x: u32, y: u32| match op {
            AtomOp::Add => half::binary(t, HalfOp::Add, HalfMods::default(), x, y),
            _ => half::min_max(t, MinMax { max: op == AtomOp::Max, ..MinMax::default() }, x, y),
        };
        u64::from(if ty.bits() == 32 {
            half::each_half2(x, y, one)
        } else {
            one(x & 0xffff, y & 0xffff) & 0xffff
        })
    };
    match (op, ty) {
        (AtomOp::Exch, _) => b,
        (AtomOp::Cas, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (AtomOp::And, _) => old & b,
        (AtomOp::Or, _) => old | b,
        (AtomOp::Xor, _) => old ^ b,
        (_, Ty::F16 | Ty::F16x2) => half(HalfTy::F16),
        (_, Ty::Bf16 | Ty::Bf16x2) => half(HalfTy::Bf16),
        (AtomOp::Add, Ty::F32) => {
            // Some hardware keeps subnormals in shared memory and flushes them in global memory. The virtual GPU keeps
            // them in both.
            u64::from(
                crate::num::float::add(
                    f32::from_bits(old as u32),
                    f32::from_bits(b as u32),
                    crate::num::Round::Nearest,
                )
                .to_bits(),
            )
        }
        (AtomOp::Add, Ty::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (AtomOp::Add, Ty::U32 | Ty::S32) => u64::from((old as u32).wrapping_add(b as u32)),
        (AtomOp::Add, _) => old.wrapping_add(b),
        (AtomOp::Inc, _) => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        (AtomOp::Dec, _) => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        (AtomOp::Min, Ty::U32 | Ty::U64) => old.min(b),
        (AtomOp::Max, Ty::U32 | Ty::U64) => old.max(b),
        (AtomOp::Min, Ty::S32) => u64::from((old as i32).min(b as i32) as u32),
        (AtomOp::Max, Ty::S32) => u64::from((old as i32).max(b as i32) as u32),
        (AtomOp::Min, _) => (old as i64).min(b as i64) as u64,
        (AtomOp::Max, _) => (old as i64).max(b as i64) as u64,
    }
}

/// Atomically replaces the value of a location by `f` of that value, and returns the old value.
///
/// # Safety
/// `at` points to an aligned location of `bytes` bytes that other threads access atomically or not at all.
pub unsafe fn update(at: *mut u8, bytes: u8, f: impl Fn(u64) -> u64) -> u64 {
    macro_rules! by {
        ($atomic:ty, $t:ty) => {{
            // SAFETY: guaranteed by the caller.
            let cell = unsafe { <$atomic>::from_ptr(at.cast::<$t>()) };
            let mut old = cell.load(Ordering::SeqCst);
            loop {
                let new = f(u64::from(old)) as $t;
                match cell.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => break u64::from(old),
                    Err(now) => old = now,
                }
            }
        }};
    }
    match bytes {
        2 => by!(AtomicU16, u16),
        4 => by!(AtomicU32, u32),
        _ => by!(AtomicU64, u64),
    }
}

impl<P: Policy> RunningWarp<'_, '_, P> {
    pub fn atom(&mut self, inst: &Inst, access: &Access, mask: u32) -> Next {
        let size = access.bytes();
        let addresses = &self.addresses(inst.sources()[0], access.offset, mask, size);
        let request = Request { kind: AccessKind::Atomic, space: access.space, addresses, size };
        self.by_space(request, mask, |cx, request, group| cx.atom_in(inst, access, request, group))
    }

    fn atom_in(&mut self, inst: &Inst, access: &Access, request: &Request<'_>, mask: u32) -> Next {
        if P::COUNT {
            self.count_access(request, mask);
        }
        let failed = self.each_span(request, mask, |cx, group, span| {
            if P::CHECK {
                cx.before_access(request, span, group, access, &[]);
            }
            cx.atom_group(inst, access, span, request.addresses, group);
            if P::CHECK {
                cx.after_access(request, group, access);
            }
        });
        if failed != 0 {
            if !P::CHECK {
                return Next::Halt;
            }
            let origin = Origin::new(Source::Reported, self.at());
            for d in inst.results() {
                self.mark_undefined(*d, failed, origin);
            }
        }
        Next::Continue
    }

    fn atom_group(&mut self, inst: &Inst, access: &Access, span: &Span, ad: &Addresses, group: u32) {
        let Op::Atom { op, .. } = inst.op else { return };
        let sources = inst.sources();
        let bytes = access.ty.bytes;
        let mut changed = false;
        let mut undefined = 0u32;
        // An exchange only moves its value, like a store.
        if P::CHECK && op != AtomOp::Exch {
            sources[1..]
                .iter()
                .for_each(|s| self.check_use(*s, group, "is combined with memory by an atomic"));
        }
        for e in 0..usize::from(access.vector) {
            let b = self.wide(sources[1 + e]);
            let c = if op == AtomOp::Cas { self.wide(sources[2]) } else { [0; 32] };
            let mut out = [0u64; 32];
            for l in lanes(group) {
                let location = Location { span: *span, address: ad.at[l] + e as u64 * u64::from(bytes) };
                let new_value = |old| combine(op, access.ty.ty, old, b[l], c[l]);
                // SAFETY: the span contains the location, which is aligned.
                let old = unsafe { update(location.host(), bytes, new_value) };
                changed |= new_value(old) != old;
                out[l] = old;
                if P::CHECK {
                    let operands = if op == AtomOp::Cas { &sources[1..3] } else { &sources[1 + e..2 + e] };
                    undefined |= self.atom_state(op, location, bytes, operands, l) << l;
                }
            }
            if let Some(d) = inst.results().get(e).copied() {
                self.set(d, &out, group);
                if P::CHECK && (self.w.tracking || undefined != 0) {
                    let origin = Origin::new(span.source, self.at());
                    self.set_undef(d, spread(undefined), spread(undefined), group, origin);
                }
            }
        }
        if changed {
            self.block.progress += 1;
        }
    }

    /// Updates the shadow state of an atomic's location. Returns 1 if the old value was undefined.
    fn atom_state(
        &mut self,
        op: AtomOp,
        location: Location,
        bytes: u8,
        operands: &[Slot],
        lane: usize,
    ) -> u32 {
        // SAFETY: the span contains the location.
        let old_defined = unsafe { all_defined(location.state(), u32::from(bytes)) };
        let undefined = |slot: &Slot| self.undefined_lanes(*slot) >> lane & 1 == 1;
        let operand_undefined = self.w.tracking && operands.iter().any(undefined);
        let defined = (old_defined || op == AtomOp::Exch) && !operand_undefined;
        let state = if defined { shadow::WRITTEN } else { shadow::TAINTED };
        // SAFETY: as above.
        unsafe { location.state().write_bytes(state, bytes as usize) };
        let source = location.span.source;
        if !defined && source == Source::Global {
            let origin = if old_defined {
                self.origin_of(operands[0]).used_at(self.at())
            } else {
                Origin::new(source, self.at())
            };
            for b in 0..u64::from(bytes) {
                self.taint(source, location.address + b, origin, lane);
            }
        }
        u32::from(!old_defined)
    }
}
