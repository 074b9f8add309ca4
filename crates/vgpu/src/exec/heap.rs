//! Device-side `malloc` and `free`, and the memory that the driver gives to cooperative launches.

use super::Policy;
use super::state::{Next, RunningWarp};
use crate::check::Kind;
use crate::isa::op::Inst;
use crate::lanes::lanes;
use crate::mem::FreeError;

impl<P: Policy> RunningWarp<'_, '_, P> {
    /// `malloc`. The words of the size are the sources, and those of the pointer the results. Null if the heap is full.
    pub fn malloc(&mut self, inst: &Inst, mask: u32) -> Next {
        let sources = inst.sources();
        self.check_use(sources[0], mask, "is the size of an allocation");
        let (mut low, mut high) = ([0; 32], [0; 32]);
        for l in lanes(mask) {
            let bytes = self.pointer(sources, 0, l);
            let address = self.grid.device.heap().and_then(|heap| heap.malloc(bytes)).unwrap_or(0);
            (low[l], high[l]) = (address as u32, (address >> 32) as u32);
        }
        self.set32(inst.r(0), &low, mask);
        self.set32(inst.r(1), &high, mask);
        self.define(inst, mask);
        Next::Continue
    }

    /// `free`. A null pointer is allowed.
    pub fn free(&mut self, inst: &Inst, mask: u32) -> Next {
        let sources = inst.sources();
        self.check_use(sources[0], mask, "is the address of memory to free");
        for l in lanes(mask) {
            let address = self.pointer(sources, 0, l);
            if address == 0 {
                continue;
            }
            let result = self.grid.device.heap().map_or(Err(FreeError::NoBlock), |heap| heap.free(address));
            if let Err(error) = result {
                self.finding(Kind::OutOfBounds, 1 << l, || match error {
                    FreeError::Twice => format!("a thread frees {address:#x}, which was freed before"),
                    FreeError::NoBlock => {
                        format!("a thread frees {address:#x}, which is not the start of a block from malloc")
                    }
                });
                if !P::CHECK {
                    self.grid.stop();
                }
            }
        }
        Next::Continue
    }

    /// One half of the address of the grid's workspace. A kernel reads it to synchronise the whole grid, so all blocks
    /// must be resident.
    pub fn grid_workspace(&mut self, inst: &Inst, high: bool, mask: u32) -> Next {
        let (blocks, limit) = (self.grid.blocks, self.grid.resident_limit);
        if blocks > limit {
            self.halt(Kind::NotResident, mask, || {
                format!(
                    "the kernel synchronises all {blocks} blocks of the grid, but the device can hold {limit} blocks of \
                     this kernel at a time"
                )
            });
            return Next::Halt;
        }
        let address = self.grid.workspace;
        let half = if high { (address >> 32) as u32 } else { address as u32 };
        self.set32(inst.r(0), &[half; 32], mask);
        self.define(inst, mask);
        Next::Continue
    }
}
