//! Decoded instructions: what the execution core runs.

use super::lane::{LaneFn, TestFn};
pub use super::types::Class;
use super::types::{MemType, Scope, Space, Ty};
use crate::num::cvt::Cvt;
use crate::num::tile;

/// Names a register (or a constant or special value) by class, base and index; one `u32` so that an instruction
/// stays small and resolving it is a mask and an add.
///
/// Bits 31-30 class, 29-28 base, 27-0 index (in units of one 32-bit register of 32 lanes).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The current function's frame.
    Frame,
    /// The launch's constant table.
    Const,
    /// Per-warp special registers.
    Special,
}

impl Slot {
    pub const NONE: Slot = Slot(u32::MAX);
    pub const MAX_INDEX: u32 = (1 << 28) - 1;

    pub fn new(class: Class, base: Base, index: u32) -> Slot {
        debug_assert!(index <= Self::MAX_INDEX);
        Slot((class as u32) << 30 | (base as u32) << 28 | index)
    }

    pub fn class(self) -> Class {
        match self.0 >> 30 {
            0 => Class::R32,
            1 => Class::R64,
            _ => Class::Pred,
        }
    }

    #[inline(always)]
    pub fn base(self) -> usize {
        (self.0 >> 28 & 3) as usize
    }

    #[inline(always)]
    pub fn index(self) -> usize {
        (self.0 & Self::MAX_INDEX) as usize
    }

    pub fn is_none(self) -> bool {
        self == Slot::NONE
    }

    /// True for a register a function can write, which needs liveness and a place in the frame.
    pub fn is_frame(self) -> bool {
        !self.is_none() && self.base() == Base::Frame as usize
    }

    /// True for a special register, such as `%tid.x`.
    pub fn is_special(self) -> bool {
        !self.is_none() && self.base() == Base::Special as usize
    }

    #[must_use]
    pub fn with_index(self, index: u32) -> Slot {
        Slot(self.0 & !Self::MAX_INDEX | index)
    }

    pub fn is_wide(self) -> bool {
        self.class() == Class::R64
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_none() {
            return f.write_str("_");
        }
        let class = ["r", "rd", "p", "?"][(self.0 >> 30) as usize];
        let base = ["", "c", "s", "?"][self.base()];
        write!(f, "{class}{base}{}", self.index())
    }
}

/// `@p`, `@!p` or always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard(u32);

impl Guard {
    pub const ALWAYS: Guard = Guard(0);

    pub fn new(pred: u32, negated: bool) -> Guard {
        Guard((pred << 1 | u32::from(negated)) + 1)
    }

    #[inline(always)]
    pub fn is_always(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub fn pred(self) -> usize {
        ((self.0 - 1) >> 1) as usize
    }

    #[inline(always)]
    pub fn negated(self) -> bool {
        (self.0 - 1) & 1 == 1
    }
}

/// An instruction: an operation, its guard and its registers, results first.
#[derive(Debug)]
pub struct Inst {
    pub op: Op,
    pub guard: Guard,
    /// How many of the registers are results.
    pub results: u8,
    count: u16,
    inline: [Slot; 6],
    /// All of them, when there are more than fit inline.
    spilled: Box<[Slot]>,
}

impl Inst {
    pub fn new(op: Op, results: &[Slot], sources: &[Slot]) -> Inst {
        let count = results.len() + sources.len();
        let mut inline = [Slot::NONE; 6];
        let mut spilled: Box<[Slot]> = Box::default();
        if count <= inline.len() {
            for (to, from) in inline.iter_mut().zip(results.iter().chain(sources)) {
                *to = *from;
            }
        } else {
            spilled = results.iter().chain(sources).copied().collect();
            for (to, from) in inline.iter_mut().zip(&spilled) {
                *to = *from;
            }
        }
        Inst { op, guard: Guard::ALWAYS, results: results.len() as u8, count: count as u16, inline, spilled }
    }

    /// Register `i`, one of the first six.
    #[inline(always)]
    pub fn r(&self, i: usize) -> Slot {
        self.inline[i]
    }

    #[inline(always)]
    pub fn registers(&self) -> &[Slot] {
        if self.spilled.is_empty() { &self.inline[..self.count as usize] } else { &self.spilled }
    }

    #[inline(always)]
    pub fn results(&self) -> &[Slot] {
        &self.registers()[..self.results as usize]
    }

    #[inline(always)]
    pub fn sources(&self) -> &[Slot] {
        &self.registers()[self.results as usize..]
    }

    /// Rewrites every register, results included.
    pub fn map_registers(&mut self, mut f: impl FnMut(Slot) -> Slot) {
        for slot in &mut self.inline {
            if !slot.is_none() {
                *slot = f(*slot);
            }
        }
        for slot in &mut self.spilled {
            if !slot.is_none() {
                *slot = f(*slot);
            }
        }
    }
}

/// How undefined bytes of the sources reach the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Any undefined source byte makes the whole result undefined.
    Any,
    /// Byte for byte: moves.
    Copy,
    /// Bitwise: a defined zero decides an `and`, a defined all-ones byte an `or`.
    And,
    Or,
    /// Bitwise without a deciding value: `xor`, `not`.
    Bytes,
    /// Low part of a wider source, or zero extension of a narrower one.
    Resize,
    /// Shift by the immediate in `imm`, left or (logical) right; Any when the amount is in a register.
    Shl,
    Shr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolOp {
    And,
    Or,
    Xor,
}

impl BoolOp {
    #[inline(always)]
    pub fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            BoolOp::And => a & b,
            BoolOp::Or => a | b,
            BoolOp::Xor => a ^ b,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exch,
    Cas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduxOp {
    Add,
    MinU,
    MinS,
    MaxU,
    MaxS,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarMode {
    Sync,
    Arrive,
    /// `bar.red.popc/and/or`: sources end with the predicate, results are the count or a predicate.
    RedPopc,
    RedAnd,
    RedOr,
}

/// How a load or store is ordered and cached; what the race checker needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Order {
    #[default]
    Weak,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub space: Space,
    pub ty: MemType,
    /// Elements per lane: 1, 2, 4 or 8.
    pub vector: u8,
    pub order: Order,
    pub scope: Scope,
    /// `ld.global.nc`: promised read-only for the kernel.
    pub non_coherent: bool,
    pub offset: i32,
    /// One 4-byte element per lane in shared or global memory, 32-bit registers: has a path of its own.
    pub quick: bool,
}

/// The constant parts of a tensor copy's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorAccess {
    /// A store combines what is there with what comes.
    pub reduce: Option<AtomOp>,
    /// To several blocks of the cluster: a mask of them follows the barrier object.
    pub multicast: bool,
    pub shared_offset: i32,
    pub barrier_offset: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierOp {
    Init,
    Inval,
    /// Result (if any) is the state token; source 1 (if any) the count. `expect` adds to the transaction count
    /// first; `drop` also lowers the count of later phases; `no_complete` may not finish the phase.
    Arrive {
        drop: bool,
        no_complete: bool,
        expect: bool,
    },
    ExpectTx,
    CompleteTx,
    /// Source 1 is the token, or the parity when `parity`; `try_wait` may suspend.
    TestWait {
        parity: bool,
        try_wait: bool,
    },
    PendingCount,
}

#[derive(Debug)]
pub enum Op {
    // Arithmetic
    /// `r0 = f(r1, r2, r3)` per lane.
    Lane {
        f: LaneFn,
        imm: u32,
        flow: Flow,
    },
    /// `r0 = f(..)`, results: predicate p and optionally its complement q; sources a, b and, with `combine`, a
    /// predicate. `set` variants write a register instead of p.
    Test {
        f: TestFn,
        combine: Option<BoolOp>,
        negate: bool,
    },
    /// `set`: like `Test` but `r0` is a register that becomes `imm` or 0.
    Set {
        f: TestFn,
        combine: Option<BoolOp>,
        negate: bool,
        truth: u32,
    },
    /// `r0 = p ? r1 : r2`, p is the last source.
    Select {
        negate: bool,
    },
    /// Predicate logic: `r0 = r1 op r2`, each optionally negated.
    PredLogic {
        op: BoolOp,
        negate: [bool; 2],
    },
    PredMove {
        negate: bool,
    },
    PredSet {
        value: bool,
    },
    Convert {
        cvt: Cvt,
        pair: bool,
    },
    /// One wide or packed value from parts (results 1) or the reverse (sources 1); `bits` per part.
    Pack {
        bits: u8,
    },
    Unpack {
        bits: u8,
    },
    /// `add.cc`, `addc`, `subc`, `madc`: sources a, b (c for mad) and the carry predicate as the last result and,
    /// with `carry_in`, the last source.
    Carry {
        kind: CarryKind,
        carry_in: bool,
        carry_out: bool,
        signed: bool,
    },

    // Memory
    Load(Access),
    /// Kernel parameter at a constant offset: the same for every lane.
    LoadParam {
        ty: MemType,
        vector: u8,
        offset: u32,
    },
    Store(Access),
    /// Sources: address, b, (c); the result is absent for `red`.
    Atom {
        op: AtomOp,
        access: Access,
    },
    /// `r0 = address of the frame's local variable`.
    LocalAddress {
        offset: u32,
        generic: bool,
    },
    /// `isspacep`
    IsSpace {
        space: Space,
    },
    Prefetch,
    Fence {
        scope: Scope,
        order: Order,
    },
    /// Asynchronous copy, global to shared. Sources: dst, src, (source size), (ignore-src predicate as size 0).
    CopyAsync {
        bytes: u8,
        has_size: bool,
        ignore: bool,
        negate: bool,
        dst_offset: i32,
        src_offset: i32,
    },
    /// Bulk copy, global to shared, that reports its bytes to a barrier object. Sources: dst, src, bytes, object.
    CopyBulk {
        dst_offset: i32,
        src_offset: i32,
        barrier_offset: i32,
    },
    /// Bulk copy, shared to global. Sources: dst, src, bytes.
    StoreBulk {
        dst_offset: i32,
        src_offset: i32,
        /// What is there is combined with what comes.
        reduce: Option<(AtomOp, Ty)>,
    },
    /// Copies a box of a tensor into shared memory. Sources: dst, tensor map, barrier object, coordinates.
    TensorLoad(TensorAccess),
    /// Copies a box of a tensor out of shared memory. Sources: src, tensor map, coordinates.
    TensorStore(TensorAccess),
    /// `tensormap.replace`: sources: address, value.
    ReplaceInMap {
        field: crate::tensor_map::Field,
        space: Space,
        offset: i32,
    },
    /// `tensormap.cp_fenceproxy`: a map from shared to global memory. Sources: dst, src.
    CopyMap {
        dst_offset: i32,
        src_offset: i32,
    },
    BulkCommit,
    /// Waits until at most `keep` of the thread's bulk groups are under way, or have still to read.
    BulkWait {
        keep: u32,
        read: bool,
    },
    /// `fence.proxy.async`
    ProxyFence,
    CopyCommit,
    /// Waits until at most `keep` of the thread's newest groups are pending.
    CopyWait {
        keep: u32,
        all: bool,
    },
    CopyMbarrierArrive {
        no_inc: bool,
        space: Space,
        offset: i32,
    },
    /// `relaxed`: orders nothing.
    Mbarrier {
        op: MbarrierOp,
        space: Space,
        offset: i32,
        relaxed: bool,
    },

    // Control
    Branch {
        target: u32,
    },
    /// `brx.idx`: one index source; block numbers.
    BranchIndexed {
        targets: Box<[u32]>,
    },
    /// Results: the caller's return words; sources: the caller's argument words.
    Call {
        function: u32,
    },
    /// Call through a pointer: the first source is the target, then the argument words.
    CallIndirect,
    /// Sources: the function's return words.
    Return,
    Exit,
    Trap {
        what: &'static str,
    },
    /// Sources: format address, argument block address; result: count.
    Printf,
    AssertFail,
    Nanosleep,

    // Synchronisation and warp operations
    /// Sources: barrier, (thread count), (predicate).
    Barrier {
        mode: BarMode,
        aligned: bool,
        has_count: bool,
        negate: bool,
    },
    WarpSync,
    /// `barrier.cluster.arrive` or `.wait`.
    ClusterBarrier {
        arrive: bool,
        relaxed: bool,
        aligned: bool,
    },
    /// `mapa`: results: address; sources: address, rank of a block.
    MapAddress {
        generic: bool,
    },
    /// `getctarank`
    BlockOfAddress {
        generic: bool,
    },
    /// Results: value, (predicate); sources: a, b, c, mask.
    Shuffle {
        mode: ShflMode,
    },
    /// Result: predicate or mask; sources: predicate, mask.
    Vote {
        mode: VoteMode,
        negate: bool,
    },
    /// Results: mask, (predicate for `all`); sources: value, membermask.
    Match {
        all: bool,
    },
    Redux {
        op: ReduxOp,
    },
    ActiveMask,
    /// Results: (leader), predicate; source: mask.
    Elect,
    Clock {
        global: bool,
        high: bool,
    },

    // Tensor
    /// `ldmatrix`: one result per matrix, 8x8 of 16 bits; the source is a row address per lane.
    LoadMatrix {
        trans: bool,
        space: Space,
        offset: i32,
    },
    /// `stmatrix`: sources are the row address, then one register per matrix.
    StoreMatrix {
        trans: bool,
        space: Space,
        offset: i32,
    },
    MoveMatrix,
    /// Results: the fragment; sources: address and, if there is one, the stride.
    WmmaLoad(Box<WmmaMemory>),
    /// Sources: address, the fragment, then the stride.
    WmmaStore(Box<WmmaMemory>),
    /// Results: d; sources: a, b, c.
    Mma(Box<Mma>),
    /// Results: d; sources: whether to add to d (a predicate), the descriptor of b, a (a descriptor, or four registers), d.
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    /// Waits until at most `keep` of the warpgroup's groups are under way.
    WgmmaWait {
        keep: u32,
    },
    /// Changes the number of registers of a warpgroup's threads.
    SetMaxRegisters {
        count: u32,
        increase: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarryKind {
    Add,
    Sub,
    MadLo,
    MadHi,
}

/// A fragment in memory.
#[derive(Debug)]
pub struct WmmaMemory {
    pub fragment: tile::Fragment,
    pub column_major: bool,
    pub space: Space,
    pub offset: i32,
    pub has_stride: bool,
    /// Where each lane's pieces lie: steps of the stride, and bytes along a row (column, if column-major).
    pub steps: Vec<[u32; 32]>,
    pub along: Vec<[u32; 32]>,
    /// Bytes per piece: one element, or a whole register where its elements are neighbours in memory.
    pub piece_bytes: u8,
    pub form: TileForm,
    /// The lane of every piece, in the order they lie in memory.
    pub lanes: Vec<u8>,
    /// Bytes of a row (column, if column-major).
    pub run: u32,
}

/// How the registers of a fragment lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileForm {
    /// Each as eight rows of 16 bytes.
    Rows,
    /// Each as eight rows of 16 bytes, transposed by elements of 16 bits.
    Columns,
    /// Two together as eight rows of 32 bytes, the even words in the first.
    Pairs,
    /// In some other way.
    Pieces,
}

impl TileForm {
    /// From where the pieces lie: steps of the stride and bytes along a row.
    pub fn of(steps: &[[u32; 32]], along: &[[u32; 32]], piece_bytes: usize) -> TileForm {
        // Whether piece `p` of lane 4g + t lies as said, seen from that of lane 0.
        let lies = |p: usize, step: &dyn Fn(u32, u32) -> u32, byte: &dyn Fn(u32, u32) -> u32| {
            (0..32).all(|lane| {
                let (g, t) = (lane / 4, lane % 4);
                steps[p][lane as usize] == steps[p][0] + step(g, t)
                    && along[p][lane as usize] == along[p][0] + byte(g, t)
            })
        };
        let after = |p: usize, q: usize, step: u32, byte: u32| {
            (steps[q][0], along[q][0]) == (steps[p][0] + step, along[p][0] + byte)
        };
        let count = steps.len();
        if piece_bytes == 4 && (0..count).all(|p| lies(p, &|g, _| g, &|_, t| 4 * t)) {
            TileForm::Rows
        } else if piece_bytes == 4
            && (0..count).all(|p| lies(p, &|g, _| g, &|_, t| 8 * t))
            && (0..count).step_by(2).all(|p| after(p, p + 1, 0, 4))
        {
            TileForm::Pairs
        } else if piece_bytes == 2
            && (0..count).all(|p| lies(p, &|_, t| 2 * t, &|g, _| 2 * g))
            && (0..count).step_by(2).all(|p| after(p, p + 1, 1, 0))
        {
            TileForm::Columns
        } else {
            TileForm::Pieces
        }
    }
}

/// `wgmma.mma_async`
#[derive(Debug)]
pub struct Wgmma {
    pub op: tile::warpgroup::Warpgroup,
    /// A comes from registers.
    pub a_registers: bool,
    /// In shared memory the operand lies with k across, not along: the MN-major layouts.
    pub transpose_a: bool,
    pub transpose_b: bool,
    /// The predicate is negated.
    pub negate_scale: bool,
}

/// `mma` and `wmma.mma`, with the number of registers of each operand.
#[derive(Debug)]
pub struct Mma {
    pub op: tile::Mma,
    pub a: u8,
    pub b: u8,
    pub wide: bool,
}
