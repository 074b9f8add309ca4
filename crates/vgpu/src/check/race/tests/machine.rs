//! Drives a few blocks by hand: threads by number, addresses in words.

use super::super::*;
use crate::program::facts::AfterAtomic;

/// Address of the global words.
const GLOBAL: u64 = 0x10_0000;

pub struct Machine {
    pub memory: GlobalRaces,
    pub blocks: Vec<BlockRaces>,
    threads: u32,
    value: u32,
    pc: u32,
    /// The operations so far, for failure messages.
    pub trace: Vec<String>,
}

/// An instruction of block 0.
pub fn site(pc: u32, warp: u32, lanes: u32) -> Site {
    Site { pc, block: 0, warp, lanes }
}

fn access(op: Op, how: (Order, Scope)) -> Access {
    Access { op, order: how.0, scope: how.1 }
}

struct Fixed(bool);

impl StoredValues for Fixed {
    fn compare(&self, _: usize, _: EarlierStore) -> Equality {
        if self.0 { Equality::Same } else { Equality::Unknown }
    }
    fn is_common(&self) -> bool {
        false
    }
    fn after_atomic(&self) -> AfterAtomic {
        AfterAtomic::Perhaps
    }
}

/// Facts of instructions that all poll flags.
pub fn polling(instructions: usize) -> Arc<[Fact]> {
    vec![Fact { polls: true, ..Fact::UNKNOWN }; instructions].into()
}

pub const WEAK: (Order, Scope) = (Order::Weak, Scope::Cta);
pub const VOLATILE: (Order, Scope) = (Order::Volatile, Scope::Sys);
pub const RELAXED: (Order, Scope) = (Order::Relaxed, Scope::Gpu);
pub const BLOCK: (Order, Scope) = (Order::Relaxed, Scope::Cta);
pub const ACQUIRE: (Order, Scope) = (Order::Acquire, Scope::Gpu);
pub const RELEASE: (Order, Scope) = (Order::Release, Scope::Gpu);

impl Machine {
    pub fn new(blocks: u32, threads: u32) -> Machine {
        let blocks = (0..blocks)
            .map(|b| {
                let mut block = BlockRaces::default();
                block.start(b, threads, 4096);
                block.set_facts(&polling(1 << 12));
                block
            })
            .collect();
        Machine {
            memory: GlobalRaces::new([(GLOBAL, 1 << 16)]),
            blocks,
            threads,
            value: 0,
            pc: 0,
            trace: Vec::new(),
        }
    }

    /// A machine with one block.
    pub fn block(threads: u32) -> Machine {
        Machine::new(1, threads)
    }

    /// The next instruction, executed by lanes of a warp.
    fn next(&mut self, warp: u32, lanes: u32) -> Site {
        self.pc += 1;
        site(self.pc, warp, lanes)
    }

    /// The next instruction, executed by one thread.
    fn next_of_thread(&mut self, thread: u32) -> Site {
        self.next(thread / 32, 1 << (thread % 32))
    }

    /// One thread's access to a word of shared memory.
    pub fn sh(&mut self, block: u32, thread: u32, op: Op, how: (Order, Scope), word: u32) {
        self.sh_bytes(block, thread, op, how, word * 4, 4);
    }

    pub fn sh_bytes(&mut self, block: u32, thread: u32, op: Op, how: (Order, Scope), at: u32, bytes: u32) {
        let site = self.next_of_thread(thread);
        self.trace
            .push(format!("{}: block {block} thread {thread} shared {at}+{bytes} {op:?} {how:?}", self.pc));
        let ranges = Ranges { at: &[at; 32], bytes, values: &Fixed(self.value != 0) };
        self.blocks[block as usize].shared(site, access(op, how), &ranges);
    }

    /// One thread's access to a word of global memory, including the acquire side.
    pub fn gl(&mut self, block: u32, thread: u32, op: Op, how: (Order, Scope), word: u64) {
        self.gl_bytes(block, thread, op, how, word * 4, 4);
    }

    pub fn gl_bytes(&mut self, block: u32, thread: u32, op: Op, how: (Order, Scope), at: u64, bytes: u32) {
        let site = self.next_of_thread(thread);
        self.trace
            .push(format!("{}: block {block} thread {thread} global {at}+{bytes} {op:?} {how:?}", self.pc));
        let at = [GLOBAL + at; 32];
        let ranges = Ranges { at: &at, bytes, values: &Fixed(self.value != 0) };
        let b = &mut self.blocks[block as usize];
        b.global(&self.memory, site, access(op, how), &ranges);
        b.global_observed(&self.memory, site, access(op, how), &at, bytes);
    }

    /// Sets whether later writes store the value that is already there.
    pub fn same_values(&mut self, same: bool) {
        self.value = u32::from(same);
    }

    /// A whole warp's access, lane `l` at `word + l * stride`.
    pub fn sh_warp(&mut self, block: u32, warp: u32, op: Op, word: u32, stride: u32) {
        let site = self.next(warp, u32::MAX);
        self.trace
            .push(format!("{}: block {block} warp {warp} shared row {word} by {stride} {op:?}", self.pc));
        let at = std::array::from_fn(|l| (word + l as u32 * stride) * 4);
        self.blocks[block as usize].shared(site, Access::weak(op), &Ranges::new(&at, 4));
    }

    /// An access to a tile of eight runs of 16 bytes, `row` bytes apart, by the lanes of `map`. It is checked as a
    /// whole if possible, otherwise lane by lane.
    pub fn sh_tile(&mut self, block: u32, warp: u32, op: Op, at: u32, row: u32, map: &[u8]) {
        let site = self.next(warp, u32::MAX);
        self.trace.push(format!("{}: block {block} warp {warp} shared tile {at} by {row} {op:?}", self.pc));
        let unit = 128 / map.len() as u32;
        let tile = Tile { base: at, row, run: 16, unit, lanes: map };
        let engine = &mut self.blocks[block as usize];
        if engine.shared_tile(site, Access::weak(op), &tile) {
            return;
        }
        // The tile is processed in parts of 32 units, and each lane has one unit of each part.
        for part in 0..map.len() / 32 {
            let mut address = [0; 32];
            for (lane, address) in address.iter_mut().enumerate() {
                let mut own = (0..map.len()).filter(|i| map[*i] as usize == lane);
                let i = own.nth(part).expect("as many units as parts") as u32;
                *address = at + i * unit / 16 * row + i * unit % 16;
            }
            engine.shared(site, Access::weak(op), &Ranges::new(&address, unit));
        }
    }

    pub fn gl_warp(&mut self, block: u32, warp: u32, op: Op, word: u64) {
        let site = self.next(warp, u32::MAX);
        self.trace.push(format!("{}: block {block} warp {warp} global row {word} {op:?}", self.pc));
        let at = std::array::from_fn(|l| GLOBAL + (word + l as u64) * 4);
        let block = &mut self.blocks[block as usize];
        block.global(&self.memory, site, Access::weak(op), &Ranges::new(&at, 4));
    }

    pub fn syncthreads(&mut self, block: u32) {
        for warp in 0..self.threads.div_ceil(32) {
            let lanes = (self.threads - warp * 32).min(32);
            let mask = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
            self.blocks[block as usize].bar_arrive(0, warp, mask, true);
        }
        self.blocks[block as usize].bar_complete(0, true);
    }

    pub fn fence(&mut self, block: u32, thread: u32, scope: Scope) {
        self.blocks[block as usize].fence(thread / 32, 1 << (thread % 32), scope);
    }

    /// `cp.async` of one word by one thread.
    pub fn copy(&mut self, thread: u32, to: u32, from: u64) {
        let site = self.next_of_thread(thread);
        self.trace.push(format!("{}: thread {thread} copies to {to} from {from}", self.pc));
        let copy = Copy { to: &[to * 4; 32], bytes: 4, from: &[GLOBAL + from * 4; 32], read: &[4; 32] };
        self.blocks[0].copy_issue(&self.memory, Agent::Copy, site, &copy);
    }

    pub fn kinds(&mut self) -> Vec<RaceKind> {
        let reports = self.blocks.iter_mut().flat_map(BlockRaces::take_reports);
        reports.filter(|r| r.severity != Severity::Note).map(|r| r.kind).collect()
    }

    pub fn notes(&mut self) -> usize {
        self.blocks
            .iter_mut()
            .flat_map(BlockRaces::take_reports)
            .filter(|r| r.severity == Severity::Note)
            .count()
    }
}
