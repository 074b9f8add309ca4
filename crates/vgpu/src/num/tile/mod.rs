//! Tensor tiles: what `mma`, `wmma`, `ldmatrix`, `stmatrix` and `movmatrix` do to the registers of a warp.
//!
//! # Layouts
//! Every fragment is made of *blocks*: one 32-bit register of the warp, read lane by lane, is a block of eight
//! rows of 16 contiguous bytes, lane `4g + t` holding bytes `4t..4t+4` of row `g`. A block of A has rows along m
//! and runs along k; a block of B has rows along n and runs along k; a block of the accumulators has rows along m
//! and runs along n (32-bit elements need two registers for eight of them: the even and the odd columns).
//! [`layout`] lists where each block of a fragment lies; [`matrix`] loads and stores blocks.
//!
//! # Accumulation
//! Products are exact; how they are summed the manual leaves open. Three models ([`Accumulation`]):
//! - `F32` (default, fastest): starts from c and adds one product after another, k ascending, each sum rounded to the
//!   nearest f32. With f16 accumulators the f32 result is rounded to f16 once.
//! - `Hopper`: what `mma.sync` and `wmma` do on sm_90, bit for bit (checked on an H200 for f16, bf16, tf32 and FP8).
//! - `Aligned`: the same kind of adder with other parameters, e.g. the 13 bits of the FP8 tensor cores of Ada (and of
//!   Hopper's wgmma).
//!
//! [`error_bound`] holds for all of them and for hardware. Integer products and f64 products (fused, k ascending)
//! are exact as on hardware.

mod aligned;
mod decode;
pub mod layout;
pub mod matrix;
mod product;
mod vector;
pub mod warpgroup;

pub use layout::{Fragment, Operand};
pub use product::{mma, mma_f64};

/// Element types of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Elem {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    F32,
    F64,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

impl Elem {
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

    pub const fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::B1 | Self::S32)
    }
}

/// Tile extents: D is m by n, A is m by k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub m: u16,
    pub n: u16,
    pub k: u16,
}

impl Shape {
    pub const fn new(m: u16, n: u16, k: u16) -> Self {
        Self { m, n, k }
    }
}

/// How floating-point products are summed. See the module's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// One f32 rounding per product.
    #[default]
    F32,
    /// The bits of `mma.sync` and `wmma.mma` on sm_90.
    Hopper,
    /// Groups of products, and the sum so far, cut `bits` bits below the largest exponent among them.
    Aligned { group: u16, bits: u8 },
}

impl Accumulation {
    /// FP8 on Ada's tensor cores and in Hopper's wgmma: about 13 bits are kept. From published studies.
    pub const FP8_13_BIT: Self = Self::Aligned { group: 32, bits: 13 };
    /// f16 and bf16 on Ampere and Ada. From published studies, not checked here.
    pub const AMPERE: Self = Self::Aligned { group: 8, bits: 24 };
}

/// Single-bit products: `.xor.popc` or `.and.popc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitOp {
    #[default]
    Xor,
    And,
}

/// One form of `mma.sync` or `wmma.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mma {
    pub shape: Shape,
    pub a: Elem,
    pub b: Elem,
    pub c: Elem,
    pub d: Elem,
    /// `.satfinite`: integer sums clamp.
    pub satfinite: bool,
    pub bit_op: BitOp,
    pub accumulation: Accumulation,
    /// Registers are `wmma` fragments rather than `mma` ones.
    pub wmma: bool,
}

impl Mma {
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

    /// The fragments of a, b, c and d; `None` if PTX has no such form or it is not supported here.
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

/// How far a result may be from the exact one, for hardware and for both models here.
///
/// `magnitude` is the sum of the absolute values of the products and of c, for that element of D. Each of the
/// k + 1 terms may lose one unit of the last place of the largest partial sum; f16 results are rounded once more,
/// those of FP8 three times (sm_90 adds two products and c, each of them f16).
pub fn error_bound(op: &Mma, magnitude: f64) -> f64 {
    if op.a.is_integer() {
        return 0.0;
    }
    let terms = f64::from(op.shape.k) + 1.0;
    // Unit of the kept bits: FP8 sums keep 13 fraction bits on Ada and Hopper, the others f32's 23.
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
