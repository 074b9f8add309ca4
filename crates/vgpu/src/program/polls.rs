//! Finds the code that a warp may repeat while it polls an mbarrier object.
//!
//! Between two executions of one test, a warp only polls if it is in the same state at both: it has changed nothing
//! outside itself, and no register that can still be read has another value. The number of such repetitions then has no
//! effect on what the warp computes. Registers that the code writes are therefore dead, or the code before the test
//! computes them again from values that do not change, such as an address or a parity.

use std::collections::HashMap;

use super::Function;
use super::registers::{LivePlaces, visit_places};
use crate::isa::op::{Inst, MbarrierOp, Op};
use crate::isa::properties::Results;

/// For each test of an mbarrier object, the instructions that a poll of this test may contain.
#[derive(Debug, Default)]
pub struct PollCode {
    tests: HashMap<u32, TestCode>,
}

/// The instructions that polls of one test may contain, as bit sets.
#[derive(Debug)]
struct TestCode {
    /// Instructions that may always be part of a poll.
    harmless: Vec<u64>,
    /// Instructions before the test that give the same result every time, and may be part of a poll if they also ran
    /// before its first test.
    repeated: Vec<u64>,
}

fn contains(bits: &[u64], i: u32) -> bool {
    bits.get(i as usize / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
}

fn insert(bits: &mut [u64], i: u32) {
    bits[i as usize / 64] |= 1 << (i % 64);
}

/// Limit of tests x instructions. In a larger function no code counts as a poll.
const MAX_BITS: usize = 1 << 26;

impl PollCode {
    pub fn new(function: &Function) -> PollCode {
        let is_test = |inst: &Inst| matches!(inst.op, Op::Mbarrier { op: MbarrierOp::TestWait { .. }, .. });
        let tests: Vec<u32> =
            (0..).zip(&function.insts).filter(|(_, i)| is_test(i)).map(|(at, _)| at).collect();
        if tests.len().saturating_mul(function.insts.len()) > MAX_BITS {
            return PollCode::default();
        }
        let Some(live) = LivePlaces::new(function) else { return PollCode::default() };
        let code = |test: u32| (test, TestCode::new(function, &live, test));
        PollCode { tests: tests.into_iter().map(code).collect() }
    }

    /// Whether the instructions `first..end` may be part of a poll of a test. The code straight before the first test
    /// of the poll ran from instruction `entered` on.
    pub fn contains(&self, test: u32, entered: u32, first: u32, end: u32) -> bool {
        let Some(code) = self.tests.get(&test) else { return false };
        (first..end).all(|i| contains(&code.harmless, i) || i >= entered && contains(&code.repeated, i))
    }
}

impl TestCode {
    fn new(function: &Function, live: &LivePlaces<'_>, test: u32) -> TestCode {
        // All code of a poll that is not in the block of the test before it comes before the start of that block.
        let start = function.blocks[function.block_of[test as usize] as usize].start;
        let (live_at_start, live_at_test) = (live.before(start), live.before(test));
        let words = function.insts.len().div_ceil(64);
        let (mut harmless, mut repeated) = (vec![0; words], vec![0; words]);
        for (i, inst) in (0..).zip(&function.insts).filter(|(_, inst)| has_no_effect(&inst.op)) {
            let mut writes_live_place = false;
            visit_places(function, inst, |place, is_def| {
                let is_live =
                    if (start..=test).contains(&i) { live_at_test(place) } else { live_at_start(place) };
                writes_live_place |= is_def && is_live;
            });
            if !writes_live_place {
                insert(&mut harmless, i);
            }
        }
        let before_test = || (start..test).map(|i| (i, &function.insts[i as usize]));
        let mut last_writes: HashMap<usize, u32> = HashMap::new();
        for (i, inst) in before_test() {
            visit_places(function, inst, |place, is_def| {
                if is_def {
                    last_writes.insert(place, i);
                }
            });
        }
        // The places that have been written so far, and whether their values are the same every time.
        let mut written: HashMap<usize, bool> = HashMap::new();
        for (i, inst) in before_test() {
            let mut same = inst.guard.is_always() && has_same_result(&inst.op);
            visit_places(function, inst, |place, is_def| {
                if !is_def {
                    same &= match written.get(&place) {
                        Some(same) => *same,
                        // A later write would change what the next repetition reads.
                        None => !last_writes.contains_key(&place),
                    };
                }
            });
            visit_places(function, inst, |place, is_def| {
                if is_def {
                    written.insert(place, same);
                }
            });
            if same {
                insert(&mut repeated, i);
            }
        }
        TestCode { harmless, repeated }
    }
}

/// Whether an operation changes nothing but its results.
fn has_no_effect(op: &Op) -> bool {
    match op {
        Op::Branch { .. } | Op::Nop | Op::Nanosleep | Op::Clock { .. } => true,
        Op::Mbarrier { op: MbarrierOp::TestWait { .. }, .. } => true,
        _ => has_same_result(op),
    }
}

/// Whether an operation changes nothing but its results, which depend only on its sources.
fn has_same_result(op: &Op) -> bool {
    // The carry flag is not among the results.
    !matches!(op, Op::Carry { .. }) && op.properties().results == Results::Sources
}
