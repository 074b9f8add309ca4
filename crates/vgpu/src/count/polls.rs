//! Polls: the code that a warp repeats while it waits for an mbarrier object. How often it does so depends on the order in
//! which the virtual GPU runs warps, so the counters leave it out. A warp that waits on hardware is suspended instead.
//! Only code that does nothing else is left out: see `program/polls.rs`.

use super::Counts;
use crate::program::Function;

/// Number of pieces of code after which a warp that failed a test no longer counts as polling.
const LONGEST_POLL: usize = 16;

/// A test that failed, and what its lanes have done since.
#[derive(Debug)]
struct Failed {
    /// The instruction of the test.
    at: u32,
    /// The lanes that ran it.
    mask: u32,
    /// First instruction of the straight-line code that ends with the test.
    entered: u32,
    /// First instruction and number of instructions of each piece of code that the lanes have run since then.
    code: Vec<(u32, u32)>,
    /// Clocks of that code in the warp's chain.
    clocks: u64,
}

/// The tests that failed, and the code since then. The lanes of a warp may poll in several groups.
#[derive(Debug, Default)]
pub struct Polls {
    failed: Vec<Failed>,
    /// First instruction of the last piece of code.
    entered: u32,
}

impl Polls {
    /// Forgets all tests.
    pub fn clear(&mut self) {
        self.failed.clear();
    }

    /// Records that lanes begin to run straight-line code, which was counted, and which takes a number of clocks. Lanes
    /// that poll stay together.
    #[inline]
    pub fn enter(&mut self, first: u32, count: u32, mask: u32, clocks: u64) {
        self.entered = first;
        if !self.failed.is_empty() {
            self.failed.retain_mut(|failed| {
                let polls = failed.mask == mask && failed.code.len() < LONGEST_POLL;
                if polls {
                    failed.code.push((first, count));
                    failed.clocks += clocks;
                }
                polls || failed.mask & mask == 0
            });
        }
    }

    /// Records that lanes stopped at an instruction. The instructions behind it are no longer counted.
    pub fn leave(&mut self, at: u32, mask: u32) {
        let failed = self.failed.iter_mut().find(|failed| failed.mask == mask);
        if let Some((first, count)) = failed.and_then(|failed| failed.code.last_mut())
            && (*first..*first + *count).contains(&at)
        {
            *count = at - *first;
        }
    }

    /// Adds clocks to the code that lanes run.
    pub fn add_clocks(&mut self, mask: u32, clocks: u64) {
        if let Some(failed) = self.failed.iter_mut().find(|failed| failed.mask == mask) {
            failed.clocks += clocks;
        }
    }

    /// Records that the warp has waited for another one: its chain no longer contains the clocks of polls before.
    pub fn waited(&mut self) {
        for failed in &mut self.failed {
            failed.clocks = 0;
        }
    }

    /// Records that lanes of the warp run the test of an mbarrier object at `at` in a function. If they have done
    /// nothing but poll since the same test failed, takes back the code since then. Returns the number of instructions
    /// taken back, or `None` if the lanes did not poll.
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
        let known = self.failed.iter().position(|failed| failed.mask == mask);
        let failed = known.map(|known| self.failed.swap_remove(known)).filter(|failed| {
            let number = |at: u32| at.wrapping_sub(function.first);
            let is_poll = |piece: &(u32, u32)| {
                let (first, count) = (number(piece.0), run(piece));
                let end = first.saturating_add(count);
                function.poll_code().contains(number(at), number(failed.entered), first, end)
            };
            failed.at == at && failed.code.iter().all(is_poll)
        });
        let polled = failed.map(|failed| {
            *chain = chain.saturating_sub(failed.clocks);
            let mut instructions = 0;
            for piece in &failed.code {
                counts.leave(piece.0, run(piece), mask);
                instructions += u64::from(run(piece));
            }
            instructions
        });
        if !passed {
            self.failed.push(Failed { at, mask, entered: self.entered, code: Vec::new(), clocks: 0 });
        }
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
            // Other lanes of the warp may work in the meantime.
            polls.enter(40, 50, 2, 10);
            counts.enter(first, count, 1);
            polls.enter(first, count, 1, 10);
        };
        enter(&mut polls, &mut counts, 0, 1);
        enter(&mut polls, &mut counts, 1, 4);
        for _ in 1..tests {
            polls.test((function, 2, 1), false, &mut chain, &mut counts);
            counts.leave(3, 2, 1);
            polls.leave(3, 1);
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

    /// Lanes 0 and 1 poll separately. A poll of lane 0 takes 10 clocks.
    #[test]
    fn clocks_of_polls_are_taken_back_once() {
        let module = function("nanosleep.u32 20;");
        let function = &module.kernels[0].functions[0];
        let mut counts = Counts { insts: vec![InstCount::default(); 8], ..Counts::default() };
        let (mut polls, mut chain) = (Polls::default(), 100);
        let mut poll = |polls: &mut Polls, chain: &mut u64| {
            counts.enter(1, 4, 1);
            polls.enter(1, 4, 1, 10);
            *chain += 10;
            polls.enter(1, 4, 2, 7);
            *chain += 7;
        };
        poll(&mut polls, &mut chain);
        let mut counted = Counts {
            insts: vec![InstCount { issued: 9, lanes: 9, ..InstCount::default() }; 8],
            ..Counts::default()
        };
        polls.test((function, 2, 1), false, &mut chain, &mut counted);
        poll(&mut polls, &mut chain);
        assert_eq!(polls.test((function, 2, 1), false, &mut chain, &mut counted), Some(2));
        assert_eq!(chain, 100 + 17 + 7);
        // A wait for another warp hides the clocks of the poll, so that they are not taken back.
        poll(&mut polls, &mut chain);
        chain = 1000;
        polls.waited();
        polls.test((function, 2, 1), true, &mut chain, &mut counted);
        assert_eq!(chain, 1000);
    }
}
