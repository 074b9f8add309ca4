//! History of the mbarrier objects of a block: data that their eight bytes cannot hold. It is recorded only under
//! checks.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::bulk::BulkCopy;
use super::grid::Grid;
use super::mbarrier::Mbarrier;

/// History of one mbarrier object.
#[derive(Debug, Default)]
pub struct BarrierLog {
    /// Number of completed phases.
    pub phase: u32,
    /// Masks of the warps that have arrived in the current phase and in the previous one.
    arrived: u32,
    previous: u32,
    /// The last instruction that announced bytes to expect.
    pub expected_at: Option<u32>,
    /// For each warp and lane: one more than the number of phases that were complete when the lane last passed a wait.
    passed: HashMap<u32, [u32; 32]>,
}

impl BarrierLog {
    pub fn arrive(&mut self, warp: u32) {
        self.arrived |= 1 << warp;
    }

    pub fn complete(&mut self) {
        self.phase += 1;
        self.previous = std::mem::take(&mut self.arrived);
    }

    /// Records that lanes pass a wait. Returns the lanes that had already passed a wait for the same phase.
    pub fn pass(&mut self, warp: u32, lanes: u32) -> u32 {
        let now = self.phase + 1;
        let passed = self.passed.entry(warp).or_insert([0; 32]);
        let mut again = 0;
        for l in super::lanes(lanes) {
            again |= u32::from(std::mem::replace(&mut passed[l], now) == now) << l;
        }
        again
    }

    /// Describes what the current phase lacks before it can complete.
    pub fn describe(&self, grid: &Grid<'_>, address: u32, object: Mbarrier) -> String {
        let named = grid.kernel.shared_variables.iter().rev().find(|(at, ..)| *at <= address);
        let name = match named {
            Some((at, bytes, name)) if address < at + (*bytes).max(8) => {
                let offset = address - at;
                if offset == 0 { format!("`{name}`") } else { format!("`{name}` + {offset}") }
            }
            _ => format!("at offset {address} of shared memory"),
        };
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
            let _ = write!(text, "; warps {absent:?} arrived in the phase before and not in this one");
        }
        text
    }
}

/// The histories of a block's mbarrier objects, by address.
pub type BarrierLogs = HashMap<u32, BarrierLog>;

/// Number of bytes that pending copies will report to an mbarrier object.
pub fn bytes_under_way(copies: &[BulkCopy], barrier: u32) -> u64 {
    copies.iter().filter(|c| c.barrier == barrier).map(|c| u64::from(c.bytes - c.landed)).sum()
}
