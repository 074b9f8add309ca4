//! How long a basic block takes one warp that never waits for a pipe: its instructions start when their operands are
//! there, at most one per clock. Compilers order instructions well, so the order of the text does not matter.
//!
//! Clocks are round figures of published microbenchmarks of Ampere to Hopper, the same for all GPUs. Global memory
//! answers from L2. What a copy or a load brings is waited for where it is used or, at the latest, where the block
//! ends; copies that a later wait covers are not waited for at all: that is what they are for.

use std::collections::HashMap;

use crate::isa::decode::Pipe;
use crate::isa::op::{Inst, MbarrierOp, Op, Slot};
use crate::isa::types::Space;
use crate::program::Function;

/// Clocks until a load from L2 has its data.
const L2_CLOCKS: u64 = 270;
const SHARED_CLOCKS: u64 = 24;
const LOCAL_CLOCKS: u64 = 34;
const BARRIER_CLOCKS: u64 = 20;
/// A branch taken, until the next instruction.
const BRANCH_CLOCKS: u64 = 8;

/// Clocks of every basic block of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    /// By function and block: where it starts, and its clocks.
    blocks: Vec<Vec<(u32, u32)>>,
}

impl Chains {
    pub(crate) fn new(functions: &[Function]) -> Chains {
        let clocks = |f: &Function| {
            let of = |start: u32, end: u32| {
                let range = start as usize..end as usize;
                let pipes = f.metas[range.clone()].iter().map(|meta| meta.pipe);
                clocks(f.insts[range].iter().zip(pipes))
            };
            f.blocks.iter().map(|b| (b.start, of(b.start, b.end).min(u64::from(u32::MAX)) as u32)).collect()
        };
        Chains { blocks: functions.iter().map(clocks).collect() }
    }

    /// The clocks of a block that a warp enters at `pc`; a warp that comes back into the middle of one has had them.
    #[inline]
    pub fn of(&self, function: u32, block: u32, pc: u32) -> u64 {
        let (start, clocks) = self.blocks[function as usize][block as usize];
        if pc == start { u64::from(clocks) } else { 0 }
    }
}

fn clocks<'i>(block: impl Iterator<Item = (&'i Inst, Pipe)>) -> u64 {
    let mut ready: HashMap<Slot, u64> = HashMap::new();
    // When everything so far is done, when the last barrier was passed, when the copies of this block are there.
    let (mut end, mut passed, mut copied) = (0u64, 0u64, 0u64);
    let mut issued = 0;
    for (inst, pipe) in block {
        // Moves between registers mostly vanish in machine code.
        issued += u64::from(pipe != Pipe::Move);
        let operands = inst.sources().iter().filter_map(|slot| ready.get(slot)).copied().max().unwrap_or(0);
        let mut start = operands.max(passed);
        if !inst.guard.is_always() {
            let guard = ready.iter().filter(|(slot, _)| is_guard(**slot, inst)).map(|(_, at)| *at).max();
            start = start.max(guard.unwrap_or(0));
        }
        let mut done = start + latency(&inst.op, pipe);
        match &inst.op {
            Op::CopyAsync { .. } | Op::CopyBulk { .. } => copied = copied.max(start + L2_CLOCKS),
            Op::CopyWait { keep: 0, .. } => done = done.max(copied),
            _ => {}
        }
        if waits(&inst.op) {
            // All that went before is done before what comes after begins.
            done = done.max(end + BARRIER_CLOCKS);
            passed = done;
        }
        for result in inst.results() {
            ready.insert(*result, done);
        }
        end = end.max(done);
    }
    end.max(issued)
}

fn is_guard(slot: Slot, inst: &Inst) -> bool {
    slot.class() == crate::isa::op::Class::Pred && slot.index() == inst.guard.pred()
}

/// Whether a warp waits here for others.
fn waits(op: &Op) -> bool {
    matches!(
        op,
        Op::Barrier { .. } | Op::CopyWait { .. } | Op::Mbarrier { op: MbarrierOp::TestWait { .. }, .. }
    )
}

fn latency(op: &Op, pipe: Pipe) -> u64 {
    let memory = |space: Space| match space {
        Space::Shared => SHARED_CLOCKS,
        Space::Local => LOCAL_CLOCKS,
        Space::Param => 4,
        _ => L2_CLOCKS,
    };
    match op {
        Op::Load(access) => memory(access.space),
        Op::Atom { access, .. } => memory(access.space) + SHARED_CLOCKS,
        // Nobody waits for a store; what must see it waits at a barrier.
        Op::Store(_) | Op::StoreMatrix { .. } | Op::WmmaStore(_) => 1,
        Op::LoadMatrix { .. } => SHARED_CLOCKS + 8,
        // Piece after piece.
        Op::WmmaLoad(m) => memory(m.space) + m.steps.len() as u64,
        Op::Mma(_) => 33,
        Op::Shuffle { .. } | Op::Redux { .. } | Op::Match { .. } | Op::MoveMatrix => 24,
        Op::Branch { .. } | Op::BranchIndexed { .. } | Op::Call { .. } | Op::CallIndirect | Op::Return => {
            BRANCH_CLOCKS
        }
        Op::Barrier { .. } | Op::CopyWait { .. } | Op::Fence { .. } => 1,
        Op::Mbarrier { .. } => SHARED_CLOCKS,
        _ => match pipe {
            Pipe::Move => 0,
            Pipe::Fp64 => 16,
            Pipe::Special => 18,
            Pipe::Conversion => 10,
            _ => 4,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks of a block of these instructions, and of the return after them.
    fn clocks_of(body: &str) -> u64 {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.shared .align 16 .b8 s[64];\n{body}\nret;\n}}\n"
        );
        let module = crate::load(&text).unwrap_or_else(|e| panic!("{e}"));
        Chains::new(&module.kernels[0].functions).of(0, 0, 0)
    }

    #[test]
    fn instructions_wait_for_what_they_need() {
        let chained =
            "add.u32 %r1, %r0, 1;\nadd.u32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 1;\nadd.u32 %r4, %r3, 1;";
        let apart = "add.u32 %r1, %r0, 1;\nadd.u32 %r2, %r0, 1;\nadd.u32 %r3, %r0, 1;\nadd.u32 %r4, %r0, 1;";
        assert_eq!(clocks_of(chained), 16);
        // Five instructions, the return among them, one per clock.
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
}
