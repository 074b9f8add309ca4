//! The memory that an instruction accesses: the addresses of its lanes, and the ranges of host memory that they point
//! into.

use super::super::survey::Survey;
use super::origin::Source;
use crate::isa::op::WmmaMemory;
use crate::isa::types::Space;
use crate::lanes::lanes;
use crate::mem::region::Region;

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
    /// Every byte was defined when the launch began.
    pub defined: bool,
}

impl Span {
    pub fn from_region(region: &Region) -> Span {
        Span {
            base: region.data,
            shadow: region.shadow,
            low: region.address,
            source: Source::Global,
            defined: region.defined,
        }
    }

    /// The part of the span from an address on.
    pub fn starting_at(&self, address: u64) -> Span {
        Span { base: self.host(address), shadow: self.state(address), low: address, ..*self }
    }

    #[inline(always)]
    pub fn host(&self, address: u64) -> *mut u8 {
        self.base.wrapping_add((address - self.low) as usize)
    }

    #[inline(always)]
    pub fn state(&self, address: u64) -> *mut u8 {
        self.shadow.wrapping_add((address - self.low) as usize)
    }
}

/// What a memory instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    Load,
    Store,
    Atomic,
}

impl AccessKind {
    /// What a thread does, as a verb.
    pub fn verb(self) -> &'static str {
        match self {
            AccessKind::Load => "reads",
            AccessKind::Store => "writes",
            AccessKind::Atomic => "atomically updates",
        }
    }
}

/// A memory request: what the lanes of one instruction access.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub kind: AccessKind,
    pub space: Space,
    pub addresses: &'a Addresses,
    /// Number of bytes per lane.
    pub size: u32,
}

/// Where the tile of a fragment lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct TileBase {
    pub space: Space,
    pub base: u64,
    /// Distance between rows (or columns), in elements.
    pub stride: u64,
}

impl TileBase {
    /// The request for one piece of the tile.
    pub fn request<'a>(&self, kind: AccessKind, m: &WmmaMemory, addresses: &'a Addresses) -> Request<'a> {
        Request { kind, space: self.space, addresses, size: u32::from(m.piece_bytes) }
    }
}

/// An address in a span.
#[derive(Clone, Copy, Debug)]
pub struct Location {
    pub span: Span,
    pub address: u64,
}

impl Location {
    #[inline(always)]
    pub fn host(&self) -> *mut u8 {
        self.span.host(self.address)
    }

    #[inline(always)]
    pub fn state(&self) -> *mut u8 {
        self.span.state(self.address)
    }

    /// The location this many bytes later.
    #[inline(always)]
    pub fn plus(&self, bytes: u64) -> Location {
        Location { address: self.address + bytes, ..*self }
    }
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
    for l in lanes(group) {
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
