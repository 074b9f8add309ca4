//! Numerics of the virtual GPU: pure functions that compute what one PTX instruction does to the bits of its
//! operands.
//!
//! This module does not depend on warps, memory or programs, and imports nothing from the rest of the crate. Values are register bits. One lane of a 32-bit register
//! is a `u32`, and narrower types are in its low bits. One lane of a 64-bit register is a `u64`. A whole register is
//! [`Lanes`] or `Lanes64`. The module has two kinds of functions:
//!
//! - Scalar functions are `#[inline(always)]` and mostly branch-free. The caller calls them in a loop over the lanes,
//!   and LLVM vectorises the loop under the caller's target features. A `Round` that is passed as a constant folds
//!   away.
//! - Bulk functions work on whole registers (`lanes…`, [`tile`]). They are compiled for AVX-512, AVX2 and the
//!   baseline, and one version is chosen at run time. They serve conversions and tensor tiles.
//!
//! | module | contents |
//! |---|---|
//! | [`codec`] | f16, bf16, tf32, E4M3, E5M2, UE8M0: decode, and encode with every rounding mode |
//! | `cvt` | the `cvt` instruction, every pair of types |
//! | `float` | f32/f64 add, mul, fma, div, sqrt, rcp with directed rounding, ftz, sat; min/max; compare |
//! | `half` | f16/bf16 arithmetic, packed or not, single rounding |
//! | `int` | mul.hi, mul24, bfe, bfi, prmt, lop3, shf, brev, bfind, fns, dp4a, dp2a, sad, … |
//! | [`approx`] | `.approx` functions and the table of their hardware error bounds |
//! | `types` | the types of PTX |
//! | `video` | vadd4, vabsdiff4 and other instructions on the parts of a register |
//! | [`tile`] | mma, wmma, ldmatrix: fragment layouts and products |
//! | `cpu`, `simd` | the instruction sets of this machine, and functions compiled for each of them |
//! | `exact` | slow and simple exact arithmetic: a value is an integer times a power of two and is rounded once |
//!
//! The PTX manual does not specify some results (NaN payloads, division by zero, the fragments of wmma), and hardware
//! departs from the manual in others. In both cases these functions do what was observed on an H200, and a comment
//! says so.
//!
//! NaN results: an f32 operation that produces a NaN produces `NAN_F32`, and an f16 or bf16 operation produces
//! `NAN_F16`, whatever the operands are. An f64 operation keeps the payload of a NaN operand; it prefers the second
//! operand to the first. If no operand is a NaN, the f64 result is 0xfff8000000000000.

// Reasons for the allowed lints, in the order of the list: a lane number indexes several arrays at once; with NaN
// operands `a < b || a > b` differs from `a != b`; a mask is clearer than a count of trailing zeros; the modifiers of
// an instruction are independent switches.
#![allow(
    clippy::needless_range_loop,
    clippy::double_comparisons,
    clippy::verbose_bit_mask,
    clippy::struct_excessive_bools
)]

pub mod approx;
pub mod codec;
pub(crate) mod cpu;
pub(crate) mod cvt;
pub(crate) mod exact;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod int;
pub(crate) mod simd;
pub mod tile;
pub(crate) mod types;
pub(crate) mod video;

/// A 32-bit register of a warp.
pub type Lanes = [u32; 32];
/// A 64-bit register of a warp.
pub(crate) type Lanes64 = [u64; 32];

/// The NaN that every f32 instruction produces.
pub(crate) const NAN_F32: u32 = 0x7fff_ffff;
/// The NaN that every f16 and bf16 instruction produces.
pub(crate) const NAN_F16: u32 = 0x7fff;

/// Rounding modes of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Round {
    /// `.rn`: nearest, ties to even.
    Nearest,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards minus infinity.
    Down,
    /// `.rp`: towards plus infinity.
    Up,
    /// `.rna`: nearest, ties away from zero.
    NearestAway,
}

#[cfg(test)]
mod testing;
