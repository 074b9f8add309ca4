//! What the tests of this folder share: random numbers, and arithmetic that owes nothing to the code under test.

/// SplitMix64: small, seedable, good enough to find wrong bits.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.u64() as u32
    }
}
