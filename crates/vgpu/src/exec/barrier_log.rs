//! What has happened to the mbarrier objects of a block, beyond their eight bytes. Only under checks.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::bulk::BulkCopy;
use super::grid::Grid;
use super::mbarrier::Mbarrier;

/// One object.
#[derive(Debug, Default)]
pub struct BarrierLog {
    /// Phases completed.
    pub phase: u32,
    /// Warps that have arrived in the phase under way, and in the one before.
    arrived: u32,
    previous: u32,
    /// The instruction that last told it to expect bytes.
    pub expected_at: Option<u32>,
    /// By warp: one more than the phases that were complete when each lane last passed a wait.
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

    /// Lanes pass a wait. Returns those that had already passed one for the same phase.
    pub fn pass(&mut self, warp: u32, lanes: u32) -> u32 {
        let now = self.phase + 1;
        let passed = self.passed.entry(warp).or_insert([0; 32]);
        let mut again = 0;
        for l in super::lanes(lanes) {
            again |= u32::from(std::mem::replace(&mut passed[l], now) == now) << l;
        }
        again
    }

    /// What is missing for the phase under way to end.
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

/// The objects of a block, by address.
pub type BarrierLogs = HashMap<u32, BarrierLog>;

/// Bytes that copies under way will report to an object.
pub fn bytes_under_way(copies: &[BulkCopy], barrier: u32) -> u64 {
    copies.iter().filter(|c| c.barrier == barrier).map(|c| u64::from(c.bytes - c.landed)).sum()
}
