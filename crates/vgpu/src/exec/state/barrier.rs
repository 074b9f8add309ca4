//! Barriers of a block, and `mbarrier` objects with their history.
//!
//! An `mbarrier` object is eight bytes of shared memory. Bits 0-19 are the arrivals pending in this phase, bits 20-39
//! the arrivals of a whole phase, and bits 40-61 the pending transaction bytes (two's complement). Bit 62 is set in a
//! valid object. Bit 63 is the parity of the current phase. The layout of the hardware is opaque, so programs must treat
//! this layout as opaque too.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::copies::BulkCopy;
use super::grid::Grid;
use super::memory::Location;
use crate::check::race::Moment;
use crate::lanes::lanes;

/// One of the sixteen barriers of a block.
#[derive(Clone, Debug, Default)]
pub struct BlockBarrier {
    /// Number of threads that have arrived in this phase.
    pub arrived: u32,
    /// Thread count that the participants gave. `None` means all threads of the block.
    pub expected: Option<u32>,
    pub popc: u32,
    pub any: bool,
    pub all: bool,
    /// The warps that have arrived in this phase, with their lanes. Recorded only under checks.
    pub by_warp: Vec<(u32, u32)>,
    /// The threads that waited in the previous phase, at its end. Empty if the barrier has no thread count.
    pub waited: Vec<Moment>,
    /// Number of the block's event with which that phase ended.
    pub ended: u64,
}

pub const MAX_COUNT: u32 = (1 << 20) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    pub pending: i64,
    pub expected: u32,
    pub tx: i64,
    pub phase: bool,
    pub valid: bool,
}

impl Mbarrier {
    pub fn decode(bits: u64) -> Mbarrier {
        Mbarrier {
            pending: (bits & 0xf_ffff) as i64,
            expected: (bits >> 20 & 0xf_ffff) as u32,
            tx: ((bits << 2) as i64) >> 42,
            phase: bits >> 63 == 1,
            valid: bits >> 62 & 1 == 1,
        }
    }

    /// Reads an object from shared memory.
    ///
    /// # Safety
    /// The span must contain the object.
    pub unsafe fn read(location: Location) -> Mbarrier {
        // SAFETY: guaranteed by the caller.
        Mbarrier::decode(unsafe { location.host().cast::<u64>().read_unaligned() })
    }

    pub fn encode(self) -> u64 {
        (self.pending as u64 & 0xf_ffff)
            | u64::from(self.expected) << 20
            | (self.tx as u64 & 0x3f_ffff) << 40
            | u64::from(self.valid) << 62
            | u64::from(self.phase) << 63
    }

    pub fn arrive(&mut self, count: u32) {
        self.pending -= i64::from(count);
    }

    /// Starts the next phase if no arrivals and no bytes are pending.
    pub fn complete(&mut self) -> bool {
        if self.pending != 0 || self.tx != 0 {
            return false;
        }
        self.phase = !self.phase;
        self.pending = i64::from(self.expected);
        true
    }
}

/// History of one mbarrier object.
#[derive(Debug, Default)]
pub struct BarrierLog {
    /// Number of completed phases.
    pub phase: u32,
    /// Masks of the warps that have arrived in the current phase and in the previous one.
    arrived: u32,
    previous: u32,
    /// Number of the block's event with which the last phase ended.
    pub ended: u64,
    /// The last instruction that announced bytes to expect.
    pub expected_at: Option<u32>,
    /// For each warp and lane: one more than the number of phases that were complete when the lane last passed a wait.
    passed: HashMap<u32, [u32; 32]>,
    /// The threads that know of the end of the last two phases, with the number of phases that were then complete.
    observed: Vec<(u32, Moment)>,
}

/// Number of observations of phases that are kept. If there are more, waits of the object are no longer checked.
const MAX_OBSERVED: usize = 256;

impl BarrierLog {
    pub fn arrive(&mut self, warp: u32) {
        self.arrived |= 1 << warp;
    }

    pub fn complete(&mut self) {
        self.phase += 1;
        self.previous = std::mem::take(&mut self.arrived);
        self.observed.retain(|(phases, _)| phases + 1 >= self.phase);
    }

    /// Records that threads know of the end of the last phase.
    pub fn observe(&mut self, moment: Moment) {
        let is_known =
            self.observed.iter_mut().any(|(phases, old)| *phases == self.phase && old.includes(&moment));
        if !is_known && self.observed.len() < MAX_OBSERVED {
            self.observed.push((self.phase, moment));
        }
    }

    /// Whether threads that pass a wait know that the phase before the last one has ended: one of them has passed a wait
    /// since then, or `is_after` some thread that knows it. Otherwise they could have passed too early, because the phase
    /// two before the last has the same parity.
    pub fn knows_phase_before(&self, warp: u32, mask: u32, is_after: impl Fn(&Moment) -> bool) -> bool {
        let Some(before) = self.phase.checked_sub(1).filter(|before| *before > 0) else { return true };
        let has_passed = |passed: &[u32; 32]| lanes(mask).any(|l| passed[l] > before);
        self.observed.len() == MAX_OBSERVED
            || self.passed.get(&warp).is_some_and(has_passed)
            || self.observed.iter().any(|(phases, moment)| *phases >= before && is_after(moment))
    }

    /// Whether a lane that arrives knows that the phase before the current one has ended: it has passed a wait since then,
    /// or `is_after` some thread that knows it. Otherwise the arrival could as well have been one of that phase, which
    /// then had more arrivals than the object expects.
    pub fn knows_last_phase(&self, warp: u32, lane: usize, is_after: impl Fn(&Moment) -> bool) -> bool {
        self.phase == 0
            || self.observed.len() == MAX_OBSERVED
            || self.passed.get(&warp).is_some_and(|passed| passed[lane] > self.phase)
            || self.observed.iter().any(|(phases, moment)| *phases >= self.phase && is_after(moment))
    }

    /// Records that lanes pass a wait. Returns the lanes that had already passed a wait for the same phase.
    pub fn pass(&mut self, warp: u32, mask: u32) -> u32 {
        let now = self.phase + 1;
        let passed = self.passed.entry(warp).or_insert([0; 32]);
        let mut again = 0;
        for l in lanes(mask) {
            again |= u32::from(std::mem::replace(&mut passed[l], now) == now) << l;
        }
        again
    }

    /// Describes what the current phase lacks before it can complete.
    pub fn describe(&self, grid: &Grid<'_>, address: u32, object: Mbarrier) -> String {
        let name = name_of(grid, address);
        let mut text = format!(
            "the mbarrier {name} is in phase {} (parity {}), which lacks {} of {} arrivals",
            self.phase,
            u8::from(object.phase),
            object.pending,
            object.expected
        );
        if object.tx != 0 {
            let _ = write!(text, " and {} bytes", object.tx);
        }
        let absent: Vec<u32> =
            (0..32).filter(|w| self.previous >> w & 1 == 1 && self.arrived >> w & 1 == 0).collect();
        let present: Vec<u32> = (0..32).filter(|w| self.arrived >> w & 1 == 1).collect();
        if !present.is_empty() {
            let _ = write!(text, "; warps {present:?} have arrived");
        }
        if !absent.is_empty() && object.pending > 0 {
            let _ = write!(text, "; warps {absent:?} arrived in the previous phase but not in this one");
        }
        text
    }
}

/// The name of an object for findings: its variable, or its place in shared memory.
pub fn name_of(grid: &Grid<'_>, address: u32) -> String {
    match grid.shared_variable(u64::from(address)) {
        Some((at, bytes, name)) if u64::from(address) < at + u64::from(bytes.max(8)) => {
            let (offset, name) = (u64::from(address) - at, plain_name(name));
            if offset == 0 { format!("`{name}`") } else { format!("`{name}` + {offset}") }
        }
        _ => format!("at offset {} of shared memory", address.saturating_sub(grid.shared_offset)),
    }
}

/// The name of a variable in the source: without the function that C++ names mention around it.
fn plain_name(name: &str) -> &str {
    let last = name.strip_prefix("_ZZ").and_then(|name| name.rsplit_once('E')).map_or(name, |(_, last)| last);
    last.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// The histories of a block's mbarrier objects, by address.
pub type BarrierLogs = HashMap<u32, BarrierLog>;

/// Number of bytes that pending copies will report to an mbarrier object.
pub fn bytes_under_way(copies: &[BulkCopy], barrier: u32) -> u64 {
    copies.iter().filter(|c| c.barrier == barrier).map(|c| u64::from(c.bytes - c.landed)).sum()
}

#[cfg(test)]
mod tests {
    use super::Mbarrier;

    #[test]
    fn names_of_variables_are_those_of_the_source() {
        assert_eq!(super::plain_name("_ZZ4ringE6v_full"), "v_full");
        assert_eq!(super::plain_name("full"), "full");
    }

    #[test]
    fn an_object_survives_its_eight_bytes() {
        for tx in [-70_000i64, -1, 0, 1, 1 << 20] {
            let b = Mbarrier { pending: 5, expected: 1_000_000, tx, phase: true, valid: true };
            assert_eq!(Mbarrier::decode(b.encode()), b);
        }
    }

    #[test]
    fn a_phase_ends_when_arrivals_and_bytes_are_in() {
        let mut b = Mbarrier { pending: 2, expected: 2, tx: 0, phase: false, valid: true };
        b.arrive(1);
        b.tx += 16;
        assert!(!b.complete());
        b.arrive(1);
        assert!(!b.complete());
        b.tx -= 16;
        assert!(b.complete());
        assert_eq!((b.pending, b.phase), (2, true));
    }
}
