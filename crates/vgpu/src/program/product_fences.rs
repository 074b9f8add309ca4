//! Finds products of a warpgroup whose registers are written after the last `wgmma.fence`.
//!
//! The PTX manual requires the fence between a write of a register by another instruction and a `wgmma` that uses the
//! register as accumulator or as part of A. Copies and constants do not count, because compilers place them anywhere and
//! the assembler removes them. A copy passes on where its source was written.

use std::collections::HashMap;

use super::flow::Block;
use crate::isa::op::{Class, Flow, Inst, Op, Slot};

/// Limit of blocks x registers. In a larger function nothing is found.
const MAX_CELLS: usize = 1 << 24;

/// For each `wgmma` that needs a fence, the instruction that wrote one of its registers after the last fence.
pub type Unfenced = HashMap<u32, u32>;

/// For each register of interest, the instruction that wrote it since the last fence, plus 1. 0 stands for none.
type State = Vec<u32>;

/// The registers that an instruction passes on unchanged.
fn copied(inst: &Inst) -> Option<&[Slot]> {
    let is_copy = matches!(inst.op, Op::Lane { flow: Flow::Copy, .. } | Op::Pack { .. } | Op::Unpack { .. });
    is_copy.then(|| inst.sources())
}

/// The registers of the accumulators and of A.
fn registers_of(inst: &Inst) -> impl Iterator<Item = Slot> + '_ {
    let (accumulators, a): (&[Slot], &[Slot]) = match &inst.op {
        Op::Wgmma(w) => (inst.results(), if w.a_registers { &inst.sources()[2..6] } else { &[] }),
        _ => (&[], &[]),
    };
    accumulators.iter().chain(a).copied()
}

/// Numbers the registers of all products, and those that copies pass on to them.
fn number_registers(insts: &[Inst]) -> HashMap<Slot, usize> {
    let mut numbers = HashMap::new();
    let add = |numbers: &mut HashMap<Slot, usize>, slot: Slot| {
        let next = numbers.len();
        if slot.is_frame() && slot.class() != Class::Pred {
            numbers.entry(slot).or_insert(next);
        }
    };
    for slot in insts.iter().flat_map(registers_of) {
        add(&mut numbers, slot);
    }
    loop {
        let before = numbers.len();
        for inst in insts {
            let passes_on = inst.results().iter().any(|d| numbers.contains_key(d));
            for source in copied(inst).filter(|_| passes_on).into_iter().flatten() {
                add(&mut numbers, *source);
            }
        }
        if numbers.len() == before {
            return numbers;
        }
    }
}

fn step(numbers: &HashMap<Slot, usize>, at: u32, inst: &Inst, state: &mut State) {
    if matches!(inst.op, Op::WgmmaFence) {
        state.fill(0);
        return;
    }
    let written_at = |slot: &Slot| numbers.get(slot).map_or(0, |n| state[*n]);
    let written = match copied(inst) {
        Some(sources) => sources.iter().map(written_at).max().unwrap_or(0),
        None if matches!(inst.op, Op::Wgmma(_)) => 0,
        None => at + 1,
    };
    for number in inst.results().iter().filter_map(|d| numbers.get(d)) {
        // A guarded instruction may leave the old value.
        let old = if inst.guard.is_always() { 0 } else { state[*number] };
        state[*number] = written.max(old);
    }
}

/// Finds the products of a function, before its registers are allocated.
pub fn unfenced_products(insts: &[Inst], blocks: &[Block]) -> Unfenced {
    if !insts.iter().any(|inst| matches!(inst.op, Op::Wgmma(_))) {
        return Unfenced::new();
    }
    let numbers = number_registers(insts);
    if blocks.len().saturating_mul(numbers.len()) > MAX_CELLS {
        return Unfenced::new();
    }
    let mut entries: Vec<State> = vec![vec![0; numbers.len()]; blocks.len()];
    let mut pending: Vec<usize> = (0..blocks.len()).collect();
    while let Some(number) = pending.pop() {
        let (block, mut state) = (&blocks[number], entries[number].clone());
        for at in block.start..block.end {
            step(&numbers, at, &insts[at as usize], &mut state);
        }
        for successor in block.successors.iter().map(|s| *s as usize) {
            let mut grown = false;
            for (entry, written) in entries[successor].iter_mut().zip(&state) {
                grown |= *written > *entry;
                *entry = (*entry).max(*written);
            }
            if grown && !pending.contains(&successor) {
                pending.push(successor);
            }
        }
    }
    let mut unfenced = Unfenced::new();
    for (block, mut state) in blocks.iter().zip(entries) {
        for at in block.start..block.end {
            let inst = &insts[at as usize];
            let written = registers_of(inst).filter_map(|slot| numbers.get(&slot)).map(|n| state[*n]).max();
            if let Some(writer) = written.and_then(|at| at.checked_sub(1)) {
                unfenced.insert(at, writer);
            }
            step(&numbers, at, inst, &mut state);
        }
    }
    unfenced
}
