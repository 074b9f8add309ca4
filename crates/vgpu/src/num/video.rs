//! Video instructions: arithmetic on the bytes and halves of 32-bit registers, from the PTX manual.
//!
//! The decoder packs the form of an instruction into one word. The SIMD forms (`vadd4`) compute all parts of their
//! operands. The scalar forms (`vadd`) compute one selected part.

/// What an instruction computes for a pair of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoOp {
    Add,
    Sub,
    /// The average, rounded away from minus infinity.
    Average,
    AbsDiff,
    Min,
    Max,
    /// A comparison: 1 or 0.
    Set(Cmp),
    /// A shift, by at most 32 or modulo 32.
    Shl {
        wrap: bool,
    },
    Shr {
        wrap: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

const OPS: [VideoOp; 16] = [
    VideoOp::Add,
    VideoOp::Sub,
    VideoOp::Average,
    VideoOp::AbsDiff,
    VideoOp::Min,
    VideoOp::Max,
    VideoOp::Set(Cmp::Eq),
    VideoOp::Set(Cmp::Ne),
    VideoOp::Set(Cmp::Lt),
    VideoOp::Set(Cmp::Le),
    VideoOp::Set(Cmp::Gt),
    VideoOp::Set(Cmp::Ge),
    VideoOp::Shl { wrap: false },
    VideoOp::Shl { wrap: true },
    VideoOp::Shr { wrap: false },
    VideoOp::Shr { wrap: true },
];

impl VideoOp {
    fn apply(self, a: i64, b: i64) -> i64 {
        let amount = |wrap: bool| if wrap { b & 31 } else { b.clamp(0, 32) };
        match self {
            VideoOp::Add => a + b,
            VideoOp::Sub => a - b,
            VideoOp::Average => (a + b + i64::from(a + b >= 0)) >> 1,
            VideoOp::AbsDiff => (a - b).abs(),
            VideoOp::Min => a.min(b),
            VideoOp::Max => a.max(b),
            VideoOp::Set(cmp) => i64::from(match cmp {
                Cmp::Eq => a == b,
                Cmp::Ne => a != b,
                Cmp::Lt => a < b,
                Cmp::Le => a <= b,
                Cmp::Gt => a > b,
                Cmp::Ge => a >= b,
            }),
            // The result has 34 bits, and the highest is its sign. Only saturation shows the bits above the word.
            VideoOp::Shl { wrap } => a << amount(wrap) << 30 >> 30,
            VideoOp::Shr { wrap } => a >> amount(wrap),
        }
    }
}

/// Which of the result and the operands are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    pub d: bool,
    pub a: bool,
    pub b: bool,
}

/// A part of a register: `.b0` to `.b3`, `.h0`, `.h1`, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Word,
    Byte(u32),
    Half(u32),
}

impl Part {
    const ALL: [Part; 8] = [
        Part::Word,
        Part::Byte(0),
        Part::Byte(1),
        Part::Byte(2),
        Part::Byte(3),
        Part::Half(0),
        Part::Half(1),
        Part::Word,
    ];

    fn place(self) -> (u32, u32) {
        match self {
            Part::Word => (0, 32),
            Part::Byte(n) => (8 * n, 8),
            Part::Half(n) => (16 * n, 16),
        }
    }

    fn code(self) -> u32 {
        Part::ALL.iter().position(|p| *p == self).unwrap_or(0) as u32
    }

    fn get(self, word: u32, signed: bool) -> i64 {
        let (at, bits) = self.place();
        extend(word >> at, bits, signed)
    }

    /// Replaces this part of a word.
    fn put(self, value: i64, word: u32) -> u32 {
        let (at, bits) = self.place();
        let mask = (u32::MAX >> (32 - bits)) << at;
        word & !mask | (value as u32) << at & mask
    }
}

fn extend(word: u32, bits: u32, signed: bool) -> i64 {
    let high = word << (32 - bits);
    if signed { i64::from(high as i32 >> (32 - bits)) } else { i64::from(high >> (32 - bits)) }
}

/// The nearest value that a part of this many bits can hold.
fn saturate(value: i64, bits: u32, signed: bool) -> i64 {
    if signed {
        value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    }
}

/// What a scalar instruction does with its third operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    None,
    Add,
    Min,
    Max,
}

const SECONDS: [Second; 4] = [Second::None, Second::Add, Second::Min, Second::Max];

/// The form of a SIMD instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd {
    pub op: VideoOp,
    /// Four bytes, not two halves.
    pub bytes: bool,
    pub signs: Signs,
    pub saturate: bool,
    /// Adds the results to the third operand. Without it, they replace parts of the third operand.
    pub sum: bool,
    /// The parts that have a result.
    pub mask: u32,
}

impl Signs {
    fn pack(self) -> u32 {
        u32::from(self.d) | u32::from(self.a) << 1 | u32::from(self.b) << 2
    }

    fn unpack(bits: u32) -> Signs {
        Signs { d: bits & 1 != 0, a: bits & 2 != 0, b: bits & 4 != 0 }
    }
}

fn code(op: VideoOp) -> u32 {
    OPS.iter().position(|o| *o == op).unwrap_or(0) as u32
}

impl Simd {
    pub fn pack(self) -> u32 {
        code(self.op)
            | self.signs.pack() << 4
            | u32::from(self.bytes) << 7
            | u32::from(self.saturate) << 8
            | u32::from(self.sum) << 9
            | self.mask << 10
    }

    fn unpack(imm: u32) -> Simd {
        Simd {
            op: OPS[(imm & 15) as usize],
            signs: Signs::unpack(imm >> 4),
            bytes: imm >> 7 & 1 != 0,
            saturate: imm >> 8 & 1 != 0,
            sum: imm >> 9 & 1 != 0,
            mask: imm >> 10 & 15,
        }
    }
}

/// `vadd4 d, a, b, c` and its siblings.
#[inline]
pub fn simd(a: u32, b: u32, c: u32, imm: u32) -> u32 {
    let form = Simd::unpack(imm);
    let parts = if form.bytes { 4 } else { 2 };
    let mut d = c;
    for n in (0..parts).filter(|n| form.mask >> n & 1 == 1) {
        let part = if form.bytes { Part::Byte(n) } else { Part::Half(n) };
        let mut value = form.op.apply(part.get(a, form.signs.a), part.get(b, form.signs.b));
        if form.saturate {
            value = saturate(value, 32 / parts, form.signs.d);
        }
        d = if form.sum { d.wrapping_add(value as u32) } else { part.put(value, d) };
    }
    d
}

/// The form of a scalar instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    pub op: VideoOp,
    pub signs: Signs,
    pub saturate: bool,
    pub second: Second,
    pub a: Part,
    pub b: Part,
    /// The part of the third operand that the result replaces. `Word` means all of it.
    pub d: Part,
}

impl Scalar {
    pub fn pack(self) -> u32 {
        let second = SECONDS.iter().position(|s| *s == self.second).unwrap_or(0) as u32;
        code(self.op)
            | self.signs.pack() << 4
            | u32::from(self.saturate) << 7
            | second << 8
            | self.a.code() << 10
            | self.b.code() << 13
            | self.d.code() << 16
    }

    fn unpack(imm: u32) -> Scalar {
        let part = |at: u32| Part::ALL[(imm >> at & 7) as usize];
        Scalar {
            op: OPS[(imm & 15) as usize],
            signs: Signs::unpack(imm >> 4),
            saturate: imm >> 7 & 1 != 0,
            second: SECONDS[(imm >> 8 & 3) as usize],
            a: part(10),
            b: part(13),
            d: part(16),
        }
    }
}

/// `vadd d, a, b` and its siblings, with `c` where the form has it.
///
/// An H200 differs from the manual in three cases, which this function follows: sums of unsigned words do not saturate;
/// `.min` and `.max` take a difference without its sign as an unsigned number; and of unsigned sums and differences they
/// take the third operand as the smaller one if both numbers have their highest bit set.
#[inline]
pub fn scalar(a: u32, b: u32, c: u32, imm: u32) -> u32 {
    let form = Scalar::unpack(imm);
    let mut value = form.op.apply(form.a.get(a, form.signs.a), form.b.get(b, form.signs.b));
    let is_unsigned_sum = form.op == VideoOp::Add && form.signs == Signs::default() && form.d == Part::Word;
    if form.saturate && !is_unsigned_sum {
        value = saturate(value, form.d.place().1, form.signs.d);
    }
    let (x, y) = (value as u32, c);
    let x_is_signed = form.signs.d && form.op != VideoOp::AbsDiff;
    let both_high = (x & y) >> 31 != 0;
    let takes_third = !form.signs.d && matches!(form.op, VideoOp::Add | VideoOp::Sub) && both_high;
    let least = |min: bool| {
        let first = extend(x, 32, x_is_signed) < extend(y, 32, form.signs.d) && !takes_third;
        if first == min { x } else { y }
    };
    match form.second {
        Second::Add => x.wrapping_add(y),
        Second::Min => least(true),
        Second::Max => least(false),
        Second::None => form.d.put(value, c),
    }
}
