//! Tensor tiles: what `mma`, `wmma`, `ldmatrix`, `stmatrix` and `movmatrix` do to the registers of a warp.
//!
//! # Layouts
//! Every fragment consists of *blocks*. A block is one 32-bit register of the warp, read lane by lane: eight rows of
//! 16 contiguous bytes. Lane `4g + t` holds bytes `4t..4t+4` of row `g`. The contiguous elements of one row are a
//! *run*. In a block of A, the rows are along m and the runs along k. In a block of B, the rows are along n and the
//! runs along k. In a block of the accumulators, the rows are along m and the runs along n. A row of eight 32-bit
//! accumulators needs two registers: one for the even columns and one for the odd columns. `layout` lists the
//! position of each block of a fragment. `matrix` loads and stores blocks.
//!
//! # Accumulation
//! Products are exact. The manual does not specify how they are summed. [`Accumulation`] has three models:
//! - `F32` (default, fastest) starts from c and adds one product after another, with k ascending. Each sum is rounded
//!   to the nearest f32. With f16 accumulators, the f32 result is rounded to f16 once.
//! - `Hopper` computes what `mma.sync` and `wmma` compute on sm_90, bit for bit (checked on an H200 for f16, bf16,
//!   tf32 and FP8).
//! - `Aligned` is the same kind of adder with other parameters, for example the 13 bits of the FP8 tensor cores of
//!   Ada.
//!
//! FP8 products of wgmma with f32 sums have their own adder (`fp8`), which gives the bits of an H200.
//!
//! [`error_bound`] holds for all three models and for hardware. Integer products and f64 products (fused, k
//! ascending) are exact, as on hardware.

mod aligned;
mod decode;
mod fp8;
pub(crate) mod layout;
pub(crate) mod matrix;
mod product;
pub(crate) mod quads;
pub(crate) mod sparse;
mod vector;
pub(crate) mod warpgroup;

pub use fp8::{E4m3Columns, E4m3Sums};
pub use layout::Fragment;
pub(crate) use layout::Operand;
pub use product::mma;
pub(crate) use product::mma_f64;

/// Element types of tiles.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, schemars::JsonSchema, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Elem {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// tf32 in an f32 register. The low 13 bits are ignored.
    Tf32,
    /// FP8 E4M3.
    E4m3,
    /// FP8 E5M2.
    E5m2,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Signed 8-bit integer.
    S8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 4-bit integer.
    S4,
    /// Unsigned 4-bit integer.
    U4,
    /// Single bit.
    B1,
    /// Signed 32-bit integer.
    S32,
}

impl Elem {
    /// Width of an element in bits.
    pub const fn bits(self) -> usize {
        match self {
            Self::F64 => 64,
            Self::F32 | Self::Tf32 | Self::S32 => 32,
            Self::F16 | Self::Bf16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// Whether this is an integer type. Single bits count as integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::B1 | Self::S32)
    }
}

/// Extents of a tile: A is m by k, B is k by n, and D is m by n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A and D.
    pub m: u16,
    /// Columns of B and D.
    pub n: u16,
    /// Columns of A and rows of B.
    pub k: u16,
}

impl Shape {
    /// Creates a shape from its extents.
    pub const fn new(m: u16, n: u16, k: u16) -> Self {
        Self { m, n, k }
    }
}

/// How floating-point products are summed. See the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// One rounding to f32 per product.
    #[default]
    F32,
    /// The same bits as `mma.sync` and `wmma.mma` on sm_90.
    Hopper,
    /// The products of a group and the running sum are cut `bits` bits below the largest exponent among them.
    Aligned {
        /// Number of products in a group.
        group: u16,
        /// Number of bits kept below the largest exponent.
        bits: u8,
    },
}

impl Accumulation {
    /// FP8 on Ada's tensor cores, which keep about 13 bits. From published studies.
    pub const FP8_13_BIT: Self = Self::Aligned { group: 32, bits: 13 };
}

/// The operation of single-bit products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitOp {
    /// `.xor.popc`.
    #[default]
    Xor,
    /// `.and.popc`.
    And,
}

/// One form of `mma.sync` or `wmma.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mma {
    /// Extents of the tile.
    pub shape: Shape,
    /// Element type of A.
    pub a: Elem,
    /// Element type of B.
    pub b: Elem,
    /// Element type of C.
    pub c: Elem,
    /// Element type of D.
    pub d: Elem,
    /// `.satfinite`: integer sums clamp.
    pub satfinite: bool,
    /// The operation of single-bit products.
    pub bit_op: BitOp,
    /// How floating-point products are summed.
    pub accumulation: Accumulation,
    /// Whether the registers are `wmma` fragments, not `mma` fragments.
    pub wmma: bool,
}

impl Mma {
    /// Creates a form without modifiers, with the default accumulation and `mma` fragments.
    pub const fn new(shape: Shape, a: Elem, b: Elem, c: Elem, d: Elem) -> Self {
        Self {
            shape,
            a,
            b,
            c,
            d,
            satfinite: false,
            bit_op: BitOp::Xor,
            accumulation: Accumulation::F32,
            wmma: false,
        }
    }

    /// Returns the fragments of a, b, c and d, or `None` if PTX has no such form or this crate does not support it.
    pub fn fragments(&self) -> Option<[Fragment; 4]> {
        let of = |operand, elem| {
            if self.wmma {
                layout::wmma(self.shape, operand, elem)
            } else {
                layout::mma(self.shape, operand, elem)
            }
        };
        product::is_supported(self).then_some(())?;
        Some([
            of(Operand::A, self.a)?,
            of(Operand::B, self.b)?,
            of(Operand::C, self.c)?,
            of(Operand::C, self.d)?,
        ])
    }
}

/// Returns the largest allowed distance between a result and the exact value, for hardware and for every model here.
///
/// `magnitude` is the sum of the absolute values of the products and of c, for that element of D. Each of the k + 1
/// terms may lose one unit of the last place of the largest partial sum. f16 results are rounded once more. f16
/// results of FP8 products are rounded three times, because sm_90 adds two products and c, each of them f16.
pub fn error_bound(op: &Mma, magnitude: f64) -> f64 {
    if op.a.is_integer() {
        return 0.0;
    }
    let terms = f64::from(op.shape.k) + 1.0;
    // The unit of the kept bits. FP8 sums keep 13 fraction bits on Ada and Hopper; the other sums keep the 23 bits of
    // f32.
    let unit = match op.a {
        Elem::E4m3 | Elem::E5m2 => f64::exp2(-13.0),
        Elem::F64 => f64::exp2(-52.0),
        _ => f64::exp2(-23.0),
    };
    let sum = terms * unit * magnitude;
    match op.d {
        Elem::F16 => {
            let roundings = if matches!(op.a, Elem::E4m3 | Elem::E5m2) { 3.0 } else { 1.0 };
            sum + roundings * (f64::exp2(-11.0) * magnitude + f64::exp2(-25.0))
        }
        _ => sum,
    }
}
