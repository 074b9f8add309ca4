//! Tensor-core products in flight, and the instructions that a warpgroup executes together.

/// The use of a register by a product in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterInFlight {
    /// Number of the product's group, from 1. 0 means that the register is free.
    pub group: u32,
    /// True if the register is an accumulator, false if it is part of A.
    pub written: bool,
    /// The instruction of the product.
    pub at: u32,
}

/// The products that a warp has in flight.
#[derive(Debug, Default)]
pub struct Flight {
    /// Number of committed groups.
    pub committed: u32,
    /// The registers in flight, by unit of the register file.
    pub registers: Vec<RegisterInFlight>,
    pub any: bool,
    /// True if the warp has executed a `wgmma.fence`.
    pub fenced: bool,
}

impl Flight {
    pub fn clear(&mut self) {
        self.committed = 0;
        self.registers.clear();
        self.any = false;
        self.fenced = false;
    }

    pub fn launch(&mut self, unit: usize, written: bool, at: u32) {
        if self.registers.len() <= unit {
            self.registers.resize(unit + 1, RegisterInFlight::default());
        }
        self.registers[unit] = RegisterInFlight { group: self.committed + 1, written, at };
        self.any = true;
    }

    pub fn product_of(&self, unit: usize) -> Option<RegisterInFlight> {
        self.registers.get(unit).copied().filter(|f| f.group != 0)
    }

    pub fn wait(&mut self, keep: u32) {
        let landed = self.committed.saturating_sub(keep);
        self.any = false;
        for f in &mut self.registers {
            if f.group <= landed {
                *f = RegisterInFlight::default();
            }
            self.any |= f.group != 0;
        }
    }
}

/// The instructions that the warps of a warpgroup must execute together, in the order of the first warp that executed
/// them.
#[derive(Debug, Default)]
pub struct Collective {
    /// Instructions that not all warps have reached yet, with their operands.
    steps: std::collections::VecDeque<(u32, u64)>,
    /// Number of steps that all warps have executed.
    done: u64,
    by_warp: [u64; 4],
    /// Number of registers per thread after `setmaxnreg`.
    pub registers: Option<u32>,
}

impl Collective {
    /// Records a warp's next step. Returns false if another warp executed something else at this step.
    pub fn step(&mut self, warp: usize, at: u32, what: u64) -> bool {
        let number = (self.by_warp[warp] - self.done) as usize;
        self.by_warp[warp] += 1;
        let same = self.steps.get(number).is_none_or(|step| *step == (at, what));
        if number >= self.steps.len() {
            self.steps.push_back((at, what));
        }
        while self.by_warp.iter().all(|n| *n > self.done) {
            self.done += 1;
            self.steps.pop_front();
        }
        same
    }

    /// Returns the first instruction that some warps did not reach, and the warps that did reach it.
    pub fn unfinished(&self) -> Option<(u32, Vec<usize>)> {
        let (at, _) = self.steps.front()?;
        Some((*at, (0..4).filter(|w| self.by_warp[*w] > self.done).collect()))
    }
}
