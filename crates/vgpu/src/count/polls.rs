//! Polls: the code that a warp repeats while it waits for an mbarrier object. How often it does so depends on the order in
//! which the virtual GPU runs warps, so the counters leave it out. A warp that waits on hardware is suspended instead.

use super::Counts;

/// Number of pieces of code after which a warp that failed a test no longer counts as polling.
const LONGEST_POLL: usize = 16;

/// The code that a warp has run since a test failed.
#[derive(Debug, Default)]
pub struct Polls {
    /// The instruction of the test, and the warp's chain of clocks at that time.
    failed: Option<(u32, u64)>,
    /// First instruction, number of instructions and lanes of each piece of code.
    code: Vec<(u32, u32, u32)>,
}

impl Polls {
    /// Forgets the last test.
    pub fn clear(&mut self) {
        self.failed = None;
        self.code.clear();
    }

    /// Records that the warp begins to run straight-line code, which was counted.
    #[inline]
    pub fn enter(&mut self, first: u32, count: u32, mask: u32) {
        if self.failed.is_some() {
            if self.code.len() == LONGEST_POLL {
                self.clear();
            } else {
                self.code.push((first, count, mask));
            }
        }
    }

    /// Records that the warp stopped at an instruction. The instructions behind it are no longer counted.
    pub fn leave(&mut self, at: u32) {
        if let Some((first, count, _)) = self.code.last_mut()
            && (*first..*first + *count).contains(&at)
        {
            *count = at - *first;
        }
    }

    /// Records a test of an mbarrier object. If the same test failed before, takes back the code since then. Returns the
    /// number of instructions taken back.
    pub fn test(&mut self, at: u32, passed: bool, chain: &mut u64, counts: &mut Counts) -> u64 {
        let mut polled = 0;
        if let Some((failed, before)) = self.failed
            && failed == at
        {
            *chain = before;
            for (first, count, mask) in self.code.drain(..) {
                // The last piece contains the test. The instructions after it have yet to run.
                let run = if (first..first + count).contains(&at) { at + 1 - first } else { count };
                counts.leave(first, run, mask);
                polled += u64::from(run);
            }
        }
        self.code.clear();
        self.failed = (!passed).then_some((at, *chain));
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::InstCount;

    #[test]
    fn a_poll_is_not_counted() {
        let count = |tests: usize| {
            let mut counts = Counts { insts: vec![InstCount::default(); 8], ..Counts::default() };
            let (mut polls, mut chain) = (Polls::default(), 0);
            // Instruction 2 is the test, and 3 the branch back to 1.
            let enter = |polls: &mut Polls, counts: &mut Counts, first, count| {
                counts.enter(first, count, 1);
                polls.enter(first, count, 1);
            };
            enter(&mut polls, &mut counts, 0, 4);
            for _ in 1..tests {
                polls.test(2, false, &mut chain, &mut counts);
                counts.leave(3, 1, 1);
                polls.leave(3);
                enter(&mut polls, &mut counts, 3, 1);
                enter(&mut polls, &mut counts, 1, 3);
            }
            polls.test(2, true, &mut chain, &mut counts);
            counts.insts.iter().map(|inst| inst.issued).collect::<Vec<u64>>()
        };
        assert_eq!(count(1), [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(count(5), count(1));
    }
}
