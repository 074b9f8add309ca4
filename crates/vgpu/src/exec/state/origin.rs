//! The origins of undefined values, and the bits that mark undefined bytes of registers.

use crate::check::Kind;

/// Undefined bytes of a register: four planes of 32 lanes. Plane `b` starts at bit `32 b`.
pub type Undef = u128;

/// The origin of undefined bytes: a kind, and the instruction that introduced them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A register that no instruction wrote on this path.
    Register,
    Shared,
    Global,
    Local,
    /// A shuffle from a lane that does not participate.
    Shuffle,
    /// An access that failed and was already reported.
    Reported,
}

impl Origin {
    pub fn new(source: Source, at: u32) -> Origin {
        Origin((at + 1) << 3 | source as u32)
    }

    /// A register that no instruction has used yet.
    pub fn register() -> Origin {
        Origin(Source::Register as u32)
    }

    pub fn source(self) -> Source {
        match self.0 & 7 {
            0 => Source::Register,
            1 => Source::Shared,
            2 => Source::Global,
            3 => Source::Local,
            4 => Source::Shuffle,
            _ => Source::Reported,
        }
    }

    pub fn at(self) -> Option<u32> {
        (self.0 >> 3).checked_sub(1)
    }

    /// Adds the instruction of the first use to the origin of a register that was never written.
    pub fn used_at(self, at: u32) -> Origin {
        if self.at().is_none() { Origin::new(self.source(), at) } else { self }
    }
}

/// Copies a lane mask to all four byte planes.
pub fn spread(mask: u32) -> Undef {
    let m = u128::from(mask);
    m | m << 32 | m << 64 | m << 96
}

/// The bit of byte `b` of a lane in its plane. Bytes 0 to 3 are in the low unit, bytes 4 to 7 in the high unit.
pub fn undef_bit(b: u64, lane: usize) -> Undef {
    1 << ((b % 4) * 32 + lane as u64)
}

/// Returns the lanes with any undefined byte.
pub fn collapse(u: Undef) -> u32 {
    (u | u >> 32 | u >> 64 | u >> 96) as u32
}

/// Describes an undefined value as a finding. The finding is at the instruction that read the unwritten location, if
/// that instruction is known.
pub fn describe(origin: Origin, here: u32, how: &str) -> (Kind, u32, String, Vec<(String, u32)>) {
    let (kind, what) = match origin.source() {
        Source::Register => {
            (Kind::Uninitialised, "a thread reads a variable that was never written, and the value")
        }
        Source::Shared => {
            (Kind::Uninitialised, "a thread reads shared memory that was never written, and the value")
        }
        Source::Global => {
            (Kind::Uninitialised, "a thread reads global memory that was never written, and the value")
        }
        Source::Local => {
            (Kind::Uninitialised, "a thread reads local memory that was never written, and the value")
        }
        Source::Shuffle => (Kind::WarpMask, "a shuffle reads a lane that does not take part, and the value"),
        Source::Reported => (Kind::Uninitialised, "the value of an access that failed"),
    };
    let at = origin.at().unwrap_or(here);
    let related = if at == here { Vec::new() } else { vec![(format!("the value {how} here"), here)] };
    (kind, at, format!("{what} {how}"), related)
}
