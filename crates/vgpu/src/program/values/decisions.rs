//! Registers whose values only decide where branches go.

use crate::isa::op::{Inst, Op, Slot};
use crate::program::facts::Code;

/// For each register, whether nothing but branches depends on it: no store, no address and no result of another kind.
pub fn only_decide(code: &Code<'_>) -> Vec<bool> {
    let mut only = vec![true; code.registers];
    let mut changed = true;
    while changed {
        changed = false;
        for inst in code.insts {
            let computes = matches!(
                inst.op,
                Op::Lane { .. }
                    | Op::Test { .. }
                    | Op::PredLogic { .. }
                    | Op::PredMove { .. }
                    | Op::Select { .. }
            );
            let results = |slot: &Slot| !slot.is_frame() || only[slot.index()];
            if is_branch(inst) || computes && inst.results().iter().all(results) {
                continue;
            }
            let guard = (!inst.guard.is_always()).then(|| inst.guard.pred());
            let sources = inst.sources().iter().filter(|slot| slot.is_frame()).map(|slot| slot.index());
            for register in sources.chain(guard) {
                changed |= std::mem::replace(&mut only[register], false);
            }
        }
    }
    only
}

fn is_branch(inst: &Inst) -> bool {
    matches!(inst.op, Op::Branch { .. } | Op::BranchIndexed { .. })
}
