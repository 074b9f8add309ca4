//! A warp that runs: everything that an instruction may access.
//!
//! The files of `exec` add methods to this type, one file per kind of instruction.

use std::marker::PhantomData;

use super::super::Policy;
use super::super::survey::LaneFunctions;
use super::block::BlockCore;
use super::grid::Grid;
use super::memory::Span;
use super::warp::{Fragment, Unit, Warp};
use super::worker::WorkerState;
use crate::check::{Kind, Site};
use crate::isa::op::Slot;
use crate::program::Function;

/// What the step loop does after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue with the next instruction.
    Continue,
    /// The fragment stays at this instruction (its state is set), and another fragment may run.
    Park,
    /// The fragment continues after this instruction, in another slice.
    YieldAfter,
    /// The fragment executes the instruction again, in another slice.
    Again,
    Halt,
}

/// Everything that an instruction may access.
pub struct RunningWarp<'c, 'g, P> {
    pub grid: &'c Grid<'g>,
    pub block: &'c mut BlockCore,
    pub w: &'c mut Warp,
    pub worker: &'c mut WorkerState,
    /// The running fragment. The others are in `w.fragments`.
    pub frag: Fragment,
    /// Frame, constants, and specials. The specials appear twice so that an absent register resolves to valid memory.
    pub bases: [*mut Unit; 4],
    pub functions: &'static LaneFunctions,
    pub policy: PhantomData<P>,
}

impl<P: Policy> RunningWarp<'_, '_, P> {
    #[inline(always)]
    pub fn reg(&self, slot: Slot) -> *mut u32 {
        self.bases[slot.base()].wrapping_add(slot.index()).cast()
    }

    #[inline(always)]
    pub fn r32(&self, slot: Slot) -> &[u32; 32] {
        // SAFETY: slots come from the allocator, which keeps them inside the frame. The tables of constants and
        // specials are as large as the loader's indices require.
        unsafe { &*self.reg(slot).cast() }
    }

    #[inline(always)]
    pub fn r64(&self, slot: Slot) -> &[u64; 32] {
        // SAFETY: as in `r32`. A 64-bit register is two aligned units.
        unsafe { &*self.reg(slot).cast() }
    }

    /// Returns a copy of a source of either width, widened to 64 bits.
    pub fn wide(&self, slot: Slot) -> [u64; 32] {
        if slot.is_wide() {
            return *self.r64(slot);
        }
        let (r, mut out) = (self.r32(slot), [0; 32]);
        for l in 0..32 {
            out[l] = u64::from(r[l]);
        }
        out
    }

    #[inline(always)]
    pub fn pred(&self, slot: Slot) -> u32 {
        self.w.preds[self.frag.pred_base as usize + slot.index()]
    }

    #[inline(always)]
    pub fn set_pred(&mut self, slot: Slot, value: u32, mask: u32) {
        let p = &mut self.w.preds[self.frag.pred_base as usize + slot.index()];
        *p = *p & !mask | value & mask;
    }

    pub fn set32(&mut self, slot: Slot, value: &[u32; 32], mask: u32) {
        // SAFETY: as in `r32`. Results are always in the frame.
        write_lanes(unsafe { &mut *self.reg(slot).cast() }, value, mask);
    }

    pub fn set64(&mut self, slot: Slot, value: &[u64; 32], mask: u32) {
        // SAFETY: as in `r64`.
        write_lanes(unsafe { &mut *self.reg(slot).cast() }, value, mask);
    }

    /// Sets a register of either width.
    pub fn set(&mut self, slot: Slot, value: &[u64; 32], mask: u32) {
        if slot.is_wide() {
            self.set64(slot, value, mask);
        } else {
            self.set32(slot, &narrow(value), mask);
        }
    }

    pub fn function(&self) -> &'_ Function {
        &self.grid.kernel.functions[self.frag.function as usize]
    }

    /// Index of the current instruction, counted over all functions.
    pub fn at(&self) -> u32 {
        self.function().first + self.frag.pc
    }

    /// The current instruction, executed by these lanes.
    pub fn site(&self, lanes: u32) -> Site {
        Site { pc: self.at(), block: self.block.index, warp: self.w.id, lanes }
    }

    /// Reports a finding at the current instruction.
    pub fn finding(&mut self, kind: Kind, lanes: u32, message: impl FnOnce() -> String) {
        let site = self.site(lanes);
        self.worker.report(kind, site, message);
    }

    /// Reports a finding that ends the launch.
    pub fn halt(&mut self, kind: Kind, lanes: u32, message: impl FnOnce() -> String) {
        self.finding(kind, lanes, message);
        self.grid.stop();
    }

    /// The shared memory of the block.
    pub fn whole_shared(&mut self) -> Span {
        self.block.shared_span()
    }
}

#[inline(always)]
fn write_lanes<T: Copy>(d: &mut [T; 32], value: &[T; 32], mask: u32) {
    if mask == u32::MAX {
        *d = *value;
    } else {
        for l in 0..32 {
            d[l] = if mask >> l & 1 == 1 { value[l] } else { d[l] };
        }
    }
}

/// Returns the low halves of all lanes. This is a plain loop because `array::map` is not vectorised.
pub fn narrow(wide: &[u64; 32]) -> [u32; 32] {
    let mut out = [0; 32];
    for l in 0..32 {
        out[l] = wide[l] as u32;
    }
    out
}
