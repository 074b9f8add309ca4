//! Computes how long a basic block takes for one warp that never waits for a pipe. An instruction starts when its
//! operands are ready, and at most one instruction starts per clock. Compilers order instructions well, so the order in
//! the text is ignored.
//!
//! The clocks are rounded figures from published microbenchmarks of Ampere to Hopper, and are the same for all GPUs.
//! Global memory is answered by L2. The warp waits for the data of a load or a copy where it uses the data, and at the
//! latest at the end of the block. The warp does not wait at all for copies that a later wait covers, because hiding
//! that latency is the purpose of such copies.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::isa::decode::Pipe;
use crate::isa::op::{Inst, Op, Slot};
use crate::isa::properties::Latency;
use crate::isa::types::Space;
use crate::program::Function;

/// Clocks until the data of a load from L2 is ready.
pub(super) const L2_CLOCKS: u64 = 270;
const SHARED_CLOCKS: u64 = 24;
const LOCAL_CLOCKS: u64 = 34;
const BARRIER_CLOCKS: u64 = 20;
/// Clocks from a taken branch to the next instruction.
const BRANCH_CLOCKS: u64 = 8;

/// Clocks of a warp, divided by what the warp waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Waits {
    /// Waiting for loads from global memory and for copies that a wait covers.
    pub global: u64,
    /// Waiting for loads from local memory.
    pub local: u64,
    /// Waiting for loads from shared memory, and for warp shuffles.
    pub shared: u64,
    /// Waiting at a barrier for other warps and for the operations that are under way.
    pub barrier: u64,
    /// Waiting for results of arithmetic, tensor cores included.
    pub arithmetic: u64,
    /// Waiting for the instruction after a branch.
    pub branch: u64,
    /// Not waiting: one instruction is issued per clock.
    pub issue: u64,
}

impl Waits {
    /// The sum of all clocks.
    pub fn clocks(&self) -> u64 {
        self.global + self.local + self.shared + self.barrier + self.arithmetic + self.branch + self.issue
    }

    pub(super) fn add(&mut self, mut other: Waits, times: u64) {
        for (sum, part) in self.parts().into_iter().zip(other.parts()) {
            *sum += *part * times;
        }
    }

    #[must_use]
    pub(super) fn times(self, n: u64) -> Waits {
        let mut waits = Waits::default();
        waits.add(self, n);
        waits
    }

    fn parts(&mut self) -> [&mut u64; 7] {
        let Waits { global, local, shared, barrier, arithmetic, branch, issue } = self;
        [global, local, shared, barrier, arithmetic, branch, issue]
    }
}

/// Clocks of every basic block of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// The start and the clocks of each block, by function and block.
    blocks: Vec<Vec<(u32, u32)>>,
}

/// The start of each basic block and the division of its clocks, by function and block.
pub(super) fn waits(functions: &[Function]) -> Vec<Vec<(u32, Waits)>> {
    let of = |f: &Function| f.blocks.iter().map(|b| (b.start, block(f, b.start, b.end))).collect();
    functions.iter().map(of).collect()
}

fn block(f: &Function, start: u32, end: u32) -> Waits {
    let range = start as usize..end as usize;
    let pipes = f.metas[range.clone()].iter().map(|meta| meta.pipe);
    longest_chain(f.insts[range].iter().zip(pipes))
}

impl Chains {
    pub(crate) fn new(functions: &[Function]) -> Chains {
        let of = |start: u32, end: u32, f: &Function| block(f, start, end).clocks().min(u64::from(u32::MAX));
        let clocks =
            |f: &Function| f.blocks.iter().map(|b| (b.start, of(b.start, b.end, f) as u32)).collect();
        Chains { blocks: functions.iter().map(clocks).collect() }
    }

    /// Returns the clocks of a block that a warp enters at `pc`. If the warp re-enters in the middle of the block, the
    /// clocks were already counted and the result is 0.
    #[inline]
    pub fn length_from(&self, function: u32, block: u32, pc: u32) -> u64 {
        let (start, clocks) = self.blocks[function as usize][block as usize];
        if pc == start { u64::from(clocks) } else { 0 }
    }
}

/// A time within a block, and what the warp waited for in the clocks before it.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    at: u64,
    waits: Waits,
}

impl Moment {
    fn later(self, other: Moment) -> Moment {
        if other.at > self.at { other } else { self }
    }

    fn after(mut self, clocks: u64, what: fn(&mut Waits) -> &mut u64) -> Moment {
        self.at += clocks;
        *what(&mut self.waits) += clocks;
        self
    }
}

pub(super) fn longest_chain<'i>(block: impl Iterator<Item = (&'i Inst, Pipe)>) -> Waits {
    let mut ready: HashMap<Slot, Moment> = HashMap::new();
    // The times when all instructions so far are done, when the last barrier was passed, and when the copies of this
    // block are complete.
    let (mut end, mut passed, mut copied) = (Moment::default(), Moment::default(), Moment::default());
    // The time when the last instruction so far started.
    let mut begun = Moment::default();
    let mut issued = 0;
    for (inst, pipe) in block {
        // Most moves between registers do not exist in machine code.
        issued += u64::from(pipe != Pipe::Move);
        let operands = inst.sources().iter().filter_map(|slot| ready.get(slot)).copied();
        let mut start = operands.fold(passed, Moment::later);
        if !inst.guard.is_always() {
            let guard = ready.iter().filter(|(slot, _)| is_guard(**slot, inst)).map(|(_, at)| *at);
            start = guard.fold(start, Moment::later);
        }
        let properties = inst.op.properties();
        let (clocks, what) = latency(properties.latency, pipe);
        let mut done = start.after(clocks, what);
        match &inst.op {
            Op::CopyAsync { .. } | Op::CopyBulk { .. } | Op::TensorLoad(_) => {
                copied = copied.later(start.after(L2_CLOCKS, |waits| &mut waits.global));
            }
            Op::CopyWait { keep: 0, .. } => done = done.later(copied),
            _ => {}
        }
        if properties.waits {
            // All earlier instructions finish before later instructions start. The warp waits at the barrier from the
            // time when it had no instruction left to start.
            let stands = end.at - begun.at.min(end.at) + BARRIER_CLOCKS;
            done = done.later(begun.after(stands, |waits| &mut waits.barrier));
            passed = done;
        }
        for result in inst.results() {
            ready.insert(*result, done);
        }
        begun = begun.later(start);
        end = end.later(done);
    }
    let idle = issued.max(end.at) - end.at;
    end.after(idle, |waits| &mut waits.issue).waits
}

fn is_guard(slot: Slot, inst: &Inst) -> bool {
    slot.class() == crate::isa::op::Class::Pred && slot.index() == inst.guard.pred()
}

/// Clocks until the results of an instruction are ready, and the kind of wait that they count as.
fn latency(latency: Latency, pipe: Pipe) -> (u64, fn(&mut Waits) -> &mut u64) {
    type What = fn(&mut Waits) -> &mut u64;
    const GLOBAL: What = |waits| &mut waits.global;
    const SHARED: What = |waits| &mut waits.shared;
    const LOCAL: What = |waits| &mut waits.local;
    const ARITHMETIC: What = |waits| &mut waits.arithmetic;
    const BRANCH: What = |waits| &mut waits.branch;
    const BARRIER: What = |waits| &mut waits.barrier;
    let memory = |space: Space, more: u64| match space {
        Space::Shared => (SHARED_CLOCKS + more, SHARED),
        Space::Local => (LOCAL_CLOCKS + more, LOCAL),
        Space::Param => (4 + more, ARITHMETIC),
        _ => (L2_CLOCKS + more, GLOBAL),
    };
    match latency {
        Latency::Load(space) => memory(space, 0),
        Latency::Atomic(space) => memory(space, SHARED_CLOCKS),
        Latency::Loads(space, count) => memory(space, u64::from(count)),
        Latency::Matrix => (SHARED_CLOCKS + 8, SHARED),
        Latency::Store => (1, ARITHMETIC),
        Latency::Product => (33, ARITHMETIC),
        Latency::Exchange => (24, SHARED),
        Latency::Branch => (BRANCH_CLOCKS, BRANCH),
        Latency::Barrier => (1, BARRIER),
        Latency::Mbarrier => (SHARED_CLOCKS, BARRIER),
        Latency::Pipe => match pipe {
            Pipe::Move => (0, ARITHMETIC),
            Pipe::Fp64 => (16, ARITHMETIC),
            Pipe::Special => (18, ARITHMETIC),
            Pipe::Conversion => (10, ARITHMETIC),
            _ => (4, ARITHMETIC),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the clocks of a block with these instructions and a return.
    fn clocks_of(body: &str) -> u64 {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.shared .align 16 .b8 s[64];\n{body}\nret;\n}}\n"
        );
        let module = crate::load(&text).unwrap_or_else(|e| panic!("{e}"));
        Chains::new(&module.kernels[0].functions).length_from(0, 0, 0)
    }

    #[test]
    fn instructions_wait_for_what_they_need() {
        let chained =
            "add.u32 %r1, %r0, 1;\nadd.u32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 1;\nadd.u32 %r4, %r3, 1;";
        let apart = "add.u32 %r1, %r0, 1;\nadd.u32 %r2, %r0, 1;\nadd.u32 %r3, %r0, 1;\nadd.u32 %r4, %r0, 1;";
        assert_eq!(clocks_of(chained), 16);
        // Five instructions, including the return, at one per clock.
        assert_eq!(clocks_of(apart), 5);
    }

    #[test]
    fn a_copy_is_waited_for_only_where_the_wait_covers_it() {
        let copy = |keep: u32| {
            clocks_of(&format!(
                "cp.async.ca.shared.global [s], [%rd0], 4;\ncp.async.commit_group;\ncp.async.wait_group {keep};"
            ))
        };
        assert!(copy(0) >= L2_CLOCKS);
        assert!(copy(1) < L2_CLOCKS / 2);
        let load = "ld.global.u32 %r1, [%rd0];\nst.shared.u32 [s], %r1;\nbar.sync 0;";
        assert!(clocks_of(load) >= L2_CLOCKS);
    }

    #[test]
    fn clocks_are_spent_on_what_is_waited_for() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\
             .reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.shared .align 16 .b8 s[64];\n\
             ld.global.u32 %r1, [%rd0];\nst.shared.u32 [s], %r1;\nbar.sync 0;\nld.shared.u32 %r2, [s];\n\
             add.u32 %r3, %r2, 1;\nret;\n}\n";
        let module = crate::load(text).unwrap_or_else(|e| panic!("{e}"));
        let functions = &module.kernels[0].functions;
        let spent = waits(functions)[0][0].1;
        // The store has started when the barrier makes the warp wait, and the store takes one clock.
        assert_eq!(
            (spent.global, spent.shared, spent.barrier),
            (L2_CLOCKS, SHARED_CLOCKS, BARRIER_CLOCKS + 1)
        );
        assert_eq!(spent.clocks(), Chains::new(functions).length_from(0, 0, 0));
    }
}
