//! One access in a 64-bit shadow word: which thread, when, where and how.
//!
//! | bits | field |
//! |---|---|
//! | 63 | made by an asynchronous agent of the thread |
//! | 60-62 | kind of that agent ([`Agent`]) |
//! | 34-59 | time of the warp (or of its agent) at the access; 0 in an empty word |
//! | 32-33 | strength; 3 is volatile, which is as strong as the device |
//! | 30-31 | operation |
//! | 10-29 | instruction |
//! | 5-9, 0-4 | warp, lane |
//!
//! The time is in the high bits, so `stamp < (floor + 1) << TIME` means "before the last block-wide barrier, or empty".
//! The agent bit is the highest bit, so the stamp of an agent always fails that test and gets the full check.

use super::super::site::Site;
use super::clock::AGENTS;
use super::event::{Access, Agent, Op, Order, Strength};
use super::report::Side;

pub const TIME: u32 = 34;
pub const MAX_TIME: u32 = (1 << 26) - 1;
const AGENT: u64 = 1 << 63;
const WHICH: u32 = 60;
/// The bits that identify a thread.
pub const THREAD: u64 = 0x3ff;
/// The bits that identify a thread or its agent.
pub const WHO: u64 = AGENT | 7 << WHICH | THREAD;
/// Marks several readers in a word for the readers of a granule. The operation bits are free there, because the
/// operation is known.
pub const SEVERAL: u64 = 3 << 30;
/// The strength bits of a volatile access.
const VOLATILE: u64 = 3;
const MAX_PC: u32 = (1 << 20) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    pub const NONE: Stamp = Stamp(0);
    /// The bits of the instruction.
    pub const PC: u64 = (MAX_PC as u64) << 10;

    /// Returns the stamp of lane 0. The stamp of another lane is this value plus the lane number.
    #[inline(always)]
    pub fn new(access: Access, site: Site, time: u32, agent: Option<Agent>) -> Stamp {
        debug_assert!(site.warp < 32 && time <= MAX_TIME);
        Stamp(
            agent.map_or(0, |agent| AGENT | (agent as u64) << WHICH)
                | (time as u64) << TIME
                | strength_bits(access) << 32
                | (access.op as u64) << 30
                | (site.pc.min(MAX_PC) as u64) << 10
                | (site.warp as u64) << 5,
        )
    }

    #[inline(always)]
    pub fn with_lane(self, lane: usize) -> Stamp {
        Stamp(self.0 & !31 | lane as u64)
    }

    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub fn lane(self) -> usize {
        (self.0 & 31) as usize
    }

    #[inline(always)]
    pub fn warp(self) -> usize {
        (self.0 >> 5 & 31) as usize
    }

    #[inline(always)]
    pub fn time(self) -> u32 {
        (self.0 >> TIME) as u32 & MAX_TIME
    }

    #[inline(always)]
    pub fn is_agent(self) -> bool {
        self.0 >> 63 == 1
    }

    /// The agent that made the access; `None` if the thread itself made it.
    pub fn agent(self) -> Option<Agent> {
        self.is_agent().then(|| Agent::ALL[(self.0 >> WHICH & 7) as usize % Agent::ALL.len()])
    }

    /// The entity number, as used by the clocks, of the warp or of the agent.
    #[inline(always)]
    pub fn entity(self) -> usize {
        if self.is_agent() { entity_of(self.warp(), (self.0 >> WHICH & 7) as usize) } else { self.warp() }
    }

    /// The stamp of the thread itself at another time.
    pub fn at_time(self, time: u32) -> Stamp {
        Stamp(self.0 & ((1 << TIME) - 1) | (time as u64) << TIME)
    }

    pub fn pc(self) -> u32 {
        (self.0 >> 10) as u32 & MAX_PC
    }

    #[inline(always)]
    pub fn op(self) -> Op {
        match self.0 >> 30 & 3 {
            0 => Op::Read,
            1 => Op::Write,
            _ => Op::Atomic,
        }
    }

    #[inline(always)]
    pub fn strength(self) -> Strength {
        match self.0 >> 32 & 3 {
            0 => Strength::Weak,
            1 => Strength::Block,
            _ => Strength::Device,
        }
    }

    /// Whether the access is volatile. It is strong, but CUDA C++ does not define what it synchronises.
    #[inline(always)]
    pub fn is_volatile(self) -> bool {
        self.0 >> 32 & 3 == VOLATILE
    }

    pub fn side(self, block: u32) -> Side {
        Side {
            block,
            warp: self.warp() as u32,
            lane: self.lane() as u32,
            pc: self.pc(),
            op: self.op(),
            agent: self.agent(),
            strength: self.strength(),
        }
    }
}

#[inline(always)]
fn strength_bits(access: Access) -> u64 {
    if access.order == Order::Volatile { VOLATILE } else { access.strength() as u64 }
}

/// The entity number, as used by the clocks, of an agent of a warp.
#[inline(always)]
pub fn entity_of(warp: usize, agent: usize) -> usize {
    AGENTS + 32 * agent + warp
}
