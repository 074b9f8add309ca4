//! The memory that an instruction accesses: the addresses of its lanes, and the ranges of host memory that they point into.

use super::super::survey::Survey;
use super::origin::Source;

/// Addresses of the lanes of one instruction.
#[derive(Debug)]
pub struct Addresses {
    pub at: [u64; 32],
    pub survey: Survey,
}

/// A range of host memory that a group of lanes points into.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Host pointer that corresponds to the address `low`.
    pub base: *mut u8,
    pub shadow: *mut u8,
    pub low: u64,
    pub source: Source,
}

impl Span {
    #[inline(always)]
    pub fn host(&self, address: u64) -> *mut u8 {
        self.base.wrapping_add((address - self.low) as usize)
    }

    #[inline(always)]
    pub fn state(&self, address: u64) -> *mut u8 {
        self.shadow.wrapping_add((address - self.low) as usize)
    }
}

/// The kind of an access, for findings and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Load,
    Store,
    Atomic,
}

/// Index under which a region is cached. Buffers lie at least 256 MiB apart, so few of them share an index.
#[inline(always)]
pub fn region_set(address: u64) -> usize {
    (address >> 28) as usize % REGION_SETS
}

pub const REGION_SETS: usize = 16;

/// Returns the addresses of a group relative to the base of their space.
pub fn relative(ad: &Addresses, group: u32, base: u64) -> Addresses {
    let mut at = ad.at;
    let mut survey = ad.survey;
    (survey.min, survey.max, survey.or) = (u64::MAX, 0, 0);
    survey.contiguous = false;
    survey.uniform = false;
    for l in crate::exec::lanes(group) {
        at[l] = at[l].wrapping_sub(base);
        survey.min = survey.min.min(at[l]);
        survey.max = survey.max.max(at[l]);
        survey.or |= at[l];
    }
    let fill = at[group.trailing_zeros() as usize & 31];
    for l in 0..32 {
        if group >> l & 1 == 0 {
            at[l] = fill;
        }
    }
    Addresses { at, survey }
}
