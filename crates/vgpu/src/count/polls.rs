//! Polls: the code that a warp repeats while it waits for an mbarrier object. How often it does so depends on the order in
//! which the virtual GPU runs warps, so the counters leave it out. A warp that waits on hardware is suspended instead.
//! Only code that does nothing else is left out: see `program/polls.rs`.

use super::Counts;
use crate::program::Function;

/// Number of pieces of code after which a warp that failed a test no longer counts as polling.
const LONGEST_POLL: usize = 16;

/// A test that failed.
#[derive(Clone, Copy, Debug)]
struct Failed {
    /// The instruction of the test.
    at: u32,
    /// The lanes that ran it.
    mask: u32,
    /// First instruction of the straight-line code that ends with the test.
    entered: u32,
    /// The warp's chain of clocks at that time.
    chain: u64,
}

/// The code that a warp has run since a test failed.
#[derive(Debug, Default)]
pub struct Polls {
    failed: Option<Failed>,
    /// First instruction of the last piece of code.
    entered: u32,
    /// First instruction and number of instructions of each piece of code.
    code: Vec<(u32, u32)>,
}

impl Polls {
    /// Forgets the last test.
    pub fn clear(&mut self) {
        self.failed = None;
        self.code.clear();
    }

    /// Records that the warp begins to run straight-line code, which was counted. If other lanes run it than those that
    /// poll, they do something else.
    #[inline]
    pub fn enter(&mut self, first: u32, count: u32, mask: u32) {
        self.entered = first;
        if let Some(failed) = self.failed {
            if self.code.len() == LONGEST_POLL || mask != failed.mask {
                self.clear();
            } else {
                self.code.push((first, count));
            }
        }
    }

    /// Records that the warp stopped at an instruction. The instructions behind it are no longer counted.
    pub fn leave(&mut self, at: u32) {
        if let Some((first, count)) = self.code.last_mut()
            && (*first..*first + *count).contains(&at)
        {
            *count = at - *first;
        }
    }

    /// Records that lanes of the warp run the test of an mbarrier object at `at` in a function. If they have done
    /// nothing but poll since the same test failed, takes back the code since then. Returns the number of instructions
    /// taken back, or `None` if the warp did not poll.
    pub fn test(
        &mut self,
        (function, at, mask): (&Function, u32, u32),
        passed: bool,
        chain: &mut u64,
        counts: &mut Counts,
    ) -> Option<u64> {
        // The last piece contains the test. The instructions after it have yet to run.
        let run = |&(first, count): &(u32, u32)| {
            if (first..first + count).contains(&at) { at + 1 - first } else { count }
        };
        let failed = self.failed.filter(|failed| {
            let number = |at: u32| at.wrapping_sub(function.first);
            let is_poll = |piece: &(u32, u32)| {
                let (first, count) = (number(piece.0), run(piece));
                let end = first.saturating_add(count);
                function.poll_code().contains(number(at), number(failed.entered), first, end)
            };
            failed.at == at && failed.mask == mask && self.code.iter().all(is_poll)
        });
        let polled = failed.map(|failed| {
            *chain = failed.chain;
            self.code
                .iter()
                .map(|piece| {
                    counts.leave(piece.0, run(piece), mask);
                    u64::from(run(piece))
                })
                .sum()
        });
        self.code.clear();
        self.failed = (!passed).then_some(Failed { at, mask, entered: self.entered, chain: *chain });
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::InstCount;

    /// A function whose loop has the test at 2 and the branch back to 1 at 4. `body` is instruction 3.
    fn function(body: &str) -> crate::Module {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n\
             .reg .pred %p<3>;\n.reg .f32 %f<3>;\n.reg .b32 %r<3>;\n.shared .align 8 .b64 b;\n\
             mov.f32 %f1, 0f3F800000;\n\
             again: mov.u32 %r1, 0;\n\
             mbarrier.test_wait.parity.shared::cta.b64 %p1, [b], %r1;\n\
             {body}\n\
             @!%p1 bra again;\n\
             st.shared.f32 [b], %f1;\nret;\n}}\n"
        );
        crate::load(&text).unwrap_or_else(|e| panic!("{e}"))
    }

    /// How often each instruction counts if the test passes at the last of `tests` tests.
    fn count(body: &str, tests: usize) -> Vec<u64> {
        let module = function(body);
        let function = &module.kernels[0].functions[0];
        let mut counts = Counts { insts: vec![InstCount::default(); 8], ..Counts::default() };
        let (mut polls, mut chain) = (Polls::default(), 0);
        let enter = |polls: &mut Polls, counts: &mut Counts, first, count| {
            counts.enter(first, count, 1);
            polls.enter(first, count, 1);
        };
        enter(&mut polls, &mut counts, 0, 1);
        enter(&mut polls, &mut counts, 1, 4);
        for _ in 1..tests {
            polls.test((function, 2, 1), false, &mut chain, &mut counts);
            counts.leave(3, 2, 1);
            polls.leave(3);
            enter(&mut polls, &mut counts, 3, 2);
            enter(&mut polls, &mut counts, 1, 4);
        }
        polls.test((function, 2, 1), true, &mut chain, &mut counts);
        counts.insts.iter().map(|inst| inst.issued).collect()
    }

    #[test]
    fn a_poll_is_not_counted() {
        for body in ["nanosleep.u32 20;", "selp.b32 %r2, 1, 0, %p1;", "mov.u32 %r1, %clock;"] {
            assert_eq!(count(body, 1), [1, 1, 1, 1, 1, 0, 0, 0], "{body}");
            assert_eq!(count(body, 5), count(body, 1), "{body}");
        }
    }

    #[test]
    fn work_between_two_failed_tests_is_counted() {
        for body in [
            "fma.rn.f32 %f1, %f1, %f1, %f1;",
            "@!%p1 mov.f32 %f1, 0f40000000;",
            "st.shared.u32 [b], %r1;",
            "ld.shared.f32 %f2, [b];",
            "bar.sync 0;",
            "atom.shared.add.u32 %r2, [b], 1;",
        ] {
            assert_eq!(count(body, 5), [1, 5, 5, 5, 5, 0, 0, 0], "{body}");
        }
    }
}
