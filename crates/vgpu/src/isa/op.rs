//! Decoded instructions: the operations that the execution core runs.

use super::lane::{LaneFn, TestFn};
pub use super::types::Class;
use super::types::{MemType, Scope, Space, Ty};
use crate::num::cvt::Cvt;
use crate::num::tile;

/// Identifies a register, a constant or a special value by class, base and index. It is one `u32` to keep instructions
/// small. Resolving it takes a mask and an add.
///
/// Bits 31-30 are the class, bits 29-28 the base and bits 27-0 the index (in units of one 32-bit register of 32 lanes).
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

    /// True for a register that a function can write. Such a register needs liveness analysis and a place in the frame.
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

/// A guard: `@p`, `@!p` or always.
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

/// An instruction: an operation, its guard and its registers. The results come first.
#[derive(Debug)]
pub struct Inst {
    pub op: Op,
    pub guard: Guard,
    /// Number of registers that are results.
    pub results: u8,
    /// It may write shared memory, as its [`super::properties::Properties`] say.
    pub writes_shared: bool,
    count: u16,
    inline: [Slot; 6],
    /// All registers, if they do not fit inline.
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
        Inst {
            writes_shared: op.properties().writes_shared,
            op,
            guard: Guard::ALWAYS,
            results: results.len() as u8,
            count: count as u16,
            inline,
            spilled,
        }
    }

    /// Returns register `i`, one of the first six.
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

    /// Replaces every register, including the results.
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

/// How undefined bytes of the sources affect the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Any undefined source byte makes the whole result undefined.
    Any,
    /// Byte for byte, for moves.
    Copy,
    /// Bitwise: a defined zero byte decides an `and`, a defined all-ones byte decides an `or`.
    And,
    Or,
    /// Bitwise without a deciding value: `xor`, `not`.
    Bytes,
    /// The low part of a wider source, or the zero extension of a narrower one.
    Resize,
    /// A shift by the immediate in `imm`: left, or logical right. If a register holds the amount, the flow is `Any`.
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
    /// `.min` and `.max` of f32, of the values or of their magnitudes. With `nan`, a NaN decides the result.
    Float {
        max: bool,
        abs: bool,
        nan: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarMode {
    Sync,
    Arrive,
    /// `bar.red.popc/and/or`. The last source is the predicate. The result is the count or a predicate.
    RedPopc,
    RedAnd,
    RedOr,
}

/// Memory order and caching of a load or store, as the race checker needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Order {
    #[default]
    Weak,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub space: Space,
    pub ty: MemType,
    /// Number of elements per lane: 1, 2, 4 or 8.
    pub vector: u8,
    pub order: Order,
    pub scope: Scope,
    /// `ld.global.nc`: the program promises that the kernel does not write this memory.
    pub non_coherent: bool,
    pub offset: i32,
    /// One 4-byte element per lane in shared or global memory, with 32-bit registers. Such accesses have a fast path.
    pub quick: bool,
    /// `st.async`: an agent stores on behalf of the thread.
    pub is_async: bool,
}

impl Access {
    /// Number of bytes per lane.
    pub fn bytes(&self) -> u32 {
        u32::from(self.ty.bytes) * u32::from(self.vector)
    }

    /// Returns the type of an element, and its offset in bytes from the first one.
    pub fn element(&self, number: usize) -> (MemType, u64) {
        (self.ty, number as u64 * u64::from(self.ty.bytes))
    }
}

/// The constant parts of a tensor copy's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorAccess {
    /// The operation with which a store combines its values and the values in memory.
    pub reduce: Option<AtomOp>,
    /// The copy goes to several blocks of the cluster. The source after the mbarrier object is the mask of these
    /// blocks.
    pub multicast: bool,
    /// The copy moves pixels of an im2col map. The last sources of a load are their offsets.
    pub im2col: bool,
    pub shared_offset: i32,
    pub barrier_offset: i32,
}

/// What a texture fetch expects of its texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextureFetch {
    pub shape: crate::texture::Shape,
    /// The results are f32, not integers.
    pub returns_floats: bool,
    /// The coordinates are f32. Integer coordinates are those of `tex1Dfetch`.
    pub float_coordinates: bool,
    /// The component that a gather (`tld4`) returns of four texels.
    pub gather: Option<u8>,
    /// The last source is the level of a mipmap.
    pub has_level: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbarrierOp {
    Init,
    Inval,
    /// The result, if present, is the state token. Source 1, if present, is the count. `expect` first adds to the
    /// transaction count. `drop` also lowers the count of later phases. `no_complete` must not complete the phase.
    Arrive {
        drop: bool,
        no_complete: bool,
        expect: bool,
    },
    ExpectTx,
    CompleteTx,
    /// Source 1 is the token or, with `parity`, the parity. `try_wait` may suspend.
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
    /// Compares a with b. The results are a predicate p and optionally its complement q. The sources are a, b and, with
    /// `combine`, a predicate. See `Set` for the variants that write a register.
    Test {
        f: TestFn,
        combine: Option<BoolOp>,
        negate: bool,
    },
    /// `set`: like `Test`, but `r0` is a register that becomes `truth` or 0.
    Set {
        f: TestFn,
        combine: Option<BoolOp>,
        negate: bool,
        truth: u32,
    },
    /// `r0 = p ? r1 : r2`. p is the last source.
    Select {
        negate: bool,
    },
    /// Predicate logic: `r0 = r1 op r2`. Each source may be negated.
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
    /// Packs several parts into one wide or packed value (one result), or does the reverse (one source). `bits` is the
    /// size of a part.
    Pack {
        bits: u8,
    },
    Unpack {
        bits: u8,
    },
    /// `add.cc`, `addc`, `subc`, `madc`. The sources are a, b and, for mad, c. The carry predicate is the last result
    /// and, with `carry_in`, also the last source.
    Carry {
        kind: CarryKind,
        carry_in: bool,
        carry_out: bool,
        signed: bool,
    },

    // Memory
    Load(Access),
    /// A kernel parameter at a constant offset. It is the same for every lane.
    LoadParam {
        ty: MemType,
        vector: u8,
        offset: u32,
    },
    Store(Access),
    /// Sources: address, b, (c). `red` has no result.
    Atom {
        op: AtomOp,
        access: Access,
    },
    /// `r0 =` the address of a local variable in the frame.
    LocalAddress {
        offset: u32,
    },
    /// `isspacep`.
    IsSpace {
        space: Space,
    },
    /// An instruction without effect here, such as a prefetch.
    Nop,
    /// `griddepcontrol`: waits for the kernels that the launch depends on, or lets the kernels start that depend on it. Every
    /// launch runs alone here.
    GridDependency {
        wait: bool,
    },
    /// `tex` and `tld4`. Results: four values. Sources: the texture, (layer), coordinates, (level).
    Texture(TextureFetch),
    /// A fence of any order. All fences run as `fence.sc`.
    Fence {
        scope: Scope,
    },
    /// Asynchronous copy from global to shared memory. Sources: dst, src, (source size), (ignore-src predicate as size
    /// 0).
    CopyAsync {
        bytes: u8,
        has_size: bool,
        ignore: bool,
        negate: bool,
        dst_offset: i32,
        src_offset: i32,
    },
    /// Bulk copy from global or shared to shared memory that reports its bytes to an mbarrier object. Sources: dst, src, bytes,
    /// object.
    CopyBulk {
        dst_offset: i32,
        src_offset: i32,
        barrier_offset: i32,
        /// The source is the block's shared memory, and the destination may be in another block of the cluster.
        from_shared: bool,
    },
    /// Bulk copy from shared to global memory. Sources: dst, src, bytes.
    StoreBulk {
        dst_offset: i32,
        src_offset: i32,
        /// The operation and type with which the copied values are combined with the values in memory.
        reduce: Option<(AtomOp, Ty)>,
    },
    /// Copies a box of a tensor into shared memory. Sources: dst, tensor map, mbarrier object, coordinates.
    TensorLoad(TensorAccess),
    /// Copies a box of a tensor out of shared memory. Sources: src, tensor map, coordinates.
    TensorStore(TensorAccess),
    /// `tensormap.replace`. Sources: address, value.
    ReplaceInMap {
        field: crate::tensor_map::Field,
        space: Space,
        offset: i32,
    },
    /// `tensormap.cp_fenceproxy`: copies a tensor map from shared to global memory. Sources: dst, src.
    CopyMap {
        dst_offset: i32,
        src_offset: i32,
    },
    BulkCommit,
    /// Waits until at most `keep` of the thread's bulk groups are pending or, with `read`, have not finished reading.
    BulkWait {
        keep: u32,
        read: bool,
    },
    /// `fence.proxy.async`, for one space or all.
    ProxyFence {
        space: Option<Space>,
    },
    /// `fence.proxy.tensormap::generic.acquire`: later copies see the changes of a tensor map. Source: its address.
    MapFence {
        offset: i32,
    },
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
    /// An operation on an mbarrier object. With `relaxed` it orders no accesses.
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
    /// `brx.idx`. The source is an index into `targets`, which are block numbers.
    BranchIndexed {
        targets: Box<[u32]>,
    },
    /// A call. Results: the caller's return words. Sources: the caller's argument words.
    Call {
        function: u32,
    },
    /// A call through a pointer. Sources: the target, then the argument words.
    CallIndirect,
    /// A return. Sources: the function's return words.
    Return,
    Exit,
    Trap {
        what: &'static str,
    },
    /// `printf`. Sources: format address, argument block address. Result: count.
    Printf,
    AssertFail,
    /// `malloc`. Sources: the words of the size. Results: the words of the pointer.
    Malloc,
    /// `free`. Sources: the words of the pointer.
    Free,
    /// `%envreg1` and `%envreg2`: the high and the low word of the address of the grid's workspace.
    GridWorkspace {
        high: bool,
    },
    Nanosleep,

    // Synchronisation and warp operations
    /// A barrier of the block. Sources: barrier, (thread count), (predicate).
    Barrier {
        mode: BarMode,
        aligned: bool,
        has_count: bool,
        negate: bool,
    },
    WarpSync,
    /// `barrier.cluster.arrive` or `barrier.cluster.wait`.
    ClusterBarrier {
        arrive: bool,
        relaxed: bool,
        aligned: bool,
    },
    /// `mapa`. Result: address. Sources: address, rank of a block.
    MapAddress {
        generic: bool,
    },
    /// `getctarank`.
    BlockOfAddress {
        generic: bool,
    },
    /// `shfl`. Results: value, (predicate). Sources: a, b, c, mask.
    Shuffle {
        mode: ShflMode,
    },
    /// `vote`. Result: predicate or mask. Sources: predicate, mask.
    Vote {
        mode: VoteMode,
        negate: bool,
    },
    /// `match`. Results: mask, (predicate for `all`). Sources: value, membermask.
    Match {
        all: bool,
    },
    Redux {
        op: ReduxOp,
    },
    ActiveMask,
    /// `elect`. Results: (leader), predicate. Source: mask.
    Elect,
    Clock {
        global: bool,
        high: bool,
    },

    // Tensor
    /// `ldmatrix`. One result per matrix of 8x8 elements of 16 bits. The source is a row address per lane.
    LoadMatrix {
        trans: bool,
        space: Space,
        offset: i32,
    },
    /// `stmatrix`. Sources: the row address, then one register per matrix.
    StoreMatrix {
        trans: bool,
        space: Space,
        offset: i32,
    },
    MoveMatrix,
    /// `wmma.load`. Results: the fragment. Sources: the address and, if present, the stride.
    WmmaLoad(Box<WmmaMemory>),
    /// `wmma.store`. Sources: the address, the fragment, then the stride.
    WmmaStore(Box<WmmaMemory>),
    /// `mma` and `wmma.mma`. Results: d. Sources: a, b, c.
    Mma(Box<Mma>),
    /// `wgmma.mma_async`. Results: d. Sources: a predicate (whether to add to d), the descriptor of b, a (a descriptor
    /// or four registers), d.
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    /// Waits until at most `keep` of the warpgroup's groups are pending.
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

/// The layout of a fragment in memory.
#[derive(Debug)]
pub struct WmmaMemory {
    pub fragment: tile::Fragment,
    pub column_major: bool,
    pub space: Space,
    pub offset: i32,
    pub has_stride: bool,
    /// Position of each lane's pieces: steps of the stride, and bytes along a row (column, if column-major).
    pub steps: Vec<[u32; 32]>,
    pub along: Vec<[u32; 32]>,
    /// Bytes per piece: one element, or a whole register if its elements are adjacent in memory.
    pub piece_bytes: u8,
    pub form: TileForm,
    /// The lane of every piece, in the order of the pieces in memory.
    pub lanes: Vec<u8>,
    /// Bytes of a row (column, if column-major).
    pub run: u32,
}

impl WmmaMemory {
    pub fn new(
        fragment: tile::Fragment,
        column_major: bool,
        space: Space,
        offset: i32,
        has_stride: bool,
    ) -> WmmaMemory {
        let (bits, per) = (fragment.elem.bits(), fragment.per_reg());
        // The position of an element: steps of the stride, and elements along a row (column, if column-major).
        let at = |lane: usize, element: usize| {
            let (row, col) = fragment.position(lane, element);
            if column_major { (col, row) } else { (row, col) }
        };
        // If the elements of a register are adjacent in memory, the register is loaded and stored as one piece.
        let joined = per > 1
            && (0..fragment.regs).all(|r| {
                (0..32).all(|lane| {
                    let (step, along) = at(lane, r * per);
                    (1..per).all(|e| at(lane, r * per + e) == (step, along + e))
                })
            });
        let step = if joined { per } else { 1 };
        let pieces = || (0..fragment.elems()).step_by(step);
        let steps: Vec<[u32; 32]> =
            pieces().map(|e| std::array::from_fn(|lane| at(lane, e).0 as u32)).collect();
        let along: Vec<[u32; 32]> =
            pieces().map(|e| std::array::from_fn(|lane| (at(lane, e).1 * bits / 8) as u32)).collect();
        let extent = if column_major { fragment.rows } else { fragment.cols };
        let (run, piece_bytes) = (extent * bits / 8, bits / 8 * step);
        let mut lanes = vec![0; fragment.rows * fragment.cols / step];
        for (steps, along) in steps.iter().zip(&along) {
            for lane in 0..32 {
                let at = steps[lane] as usize * run + along[lane] as usize;
                lanes[at / piece_bytes] = lane as u8;
            }
        }
        WmmaMemory {
            form: TileForm::new(&steps, &along, piece_bytes),
            fragment,
            column_major,
            space,
            offset,
            has_stride,
            steps,
            along,
            piece_bytes: piece_bytes as u8,
            lanes,
            run: run as u32,
        }
    }
}

/// How the registers of a fragment are arranged in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileForm {
    /// Each register is eight rows of 16 bytes.
    Rows,
    /// Each register is eight rows of 16 bytes, transposed by elements of 16 bits.
    Columns,
    /// Two registers together are eight rows of 32 bytes. The first register holds the even words.
    Pairs,
    /// Any other arrangement.
    Pieces,
}

impl TileForm {
    /// Determines the form from the positions of the pieces: steps of the stride, and bytes along a row.
    pub fn new(steps: &[[u32; 32]], along: &[[u32; 32]], piece_bytes: usize) -> TileForm {
        // Whether piece `p` of every lane 4g + t has the given position relative to piece `p` of lane 0.
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

/// `wgmma.mma_async`.
#[derive(Debug)]
pub struct Wgmma {
    pub op: tile::warpgroup::Warpgroup,
    /// A is in registers, not in shared memory.
    pub a_registers: bool,
    /// The operand in shared memory has the MN-major layout: k runs across the lines, not along them.
    pub transpose_a: bool,
    pub transpose_b: bool,
    /// The predicate is negated.
    pub negate_scale: bool,
}

/// How the warp computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmaKind {
    Dense,
    /// Four products, each by eight lanes.
    Quads(tile::quads::Quads),
    /// A is sparse. The last source is its metadata; the selector says which lanes hold them.
    Sparse {
        selector: u8,
    },
}

/// `mma` and `wmma.mma`, with the number of registers of each operand.
#[derive(Debug)]
pub struct Mma {
    pub kind: MmaKind,
    pub op: tile::Mma,
    pub a: u8,
    pub b: u8,
    pub wide: bool,
}
