//! Numerics of the virtual GPU: what one PTX instruction does to the bits of its operands, as pure functions.
//!
//! Nothing here knows of warps, memory or programs. Values are register bits: a lane of a 32-bit register is a
//! `u32` (narrower types sit in its low bits), of a 64-bit one a `u64`; a whole register is [`Lanes`] or
//! [`Lanes64`]. Two kinds of function are offered:
//!
//! - scalar ones, `#[inline(always)]` and mostly branch-free, meant to be called in a loop over the lanes that
//!   LLVM vectorises under the caller's target features; a [`Round`] passed as a constant folds away;
//! - bulk ones over whole registers (`lanes…`, [`tile`]), compiled for AVX-512, AVX2 and the baseline and chosen
//!   at run time, for the work that dominates kernels: conversions, half2 arithmetic, `ex2` and tensor tiles.
//!
//! | module | holds |
//! |---|---|
//! | [`codec`] | f16, bf16, tf32, E4M3, E5M2, UE8M0: decode, and encode with every rounding mode |
//! | [`cvt`] | the `cvt` instruction, every pair of types |
//! | [`float`] | f32/f64 add, mul, fma, div, sqrt, rcp with directed rounding, ftz, sat; min/max; compare |
//! | [`half`] | f16/bf16 arithmetic, packed or not, single rounding |
//! | [`int`] | mul.hi, mul24, bfe, bfi, prmt, lop3, shf, brev, bfind, fns, dp4a, dp2a, sad, … |
//! | [`approx`] | `.approx` functions and the table of their hardware error bounds |
//! | [`tile`] | mma, wmma, ldmatrix: fragment layouts and products |
//! | [`exact`] | the slow, obviously right core: a value as integer times power of two, rounded once |
//!
//! Where the PTX manual leaves a result open (NaN payloads, division by zero, fragments of wmma) or hardware
//! departs from it, these functions do what an H200 was seen to do; a comment says so.
//!
//! NaN: f32 operations that make a NaN make [`NAN_F32`], f16 and bf16 ones [`NAN_F16`], whatever the operands;
//! f64 ones keep a NaN operand's payload (the second's before the first's), and make 0xfff8000000000000 of none.

// Lanes index several arrays at once; `a < b || a > b` is not `a != b` where NaN is about; a mask says more than a
// count of zeros; and modifiers of an instruction are switches, however many.
#![allow(
    clippy::needless_range_loop,
    clippy::double_comparisons,
    clippy::verbose_bit_mask,
    clippy::struct_excessive_bools
)]

pub mod approx;
pub mod codec;
pub mod cvt;
pub mod exact;
pub mod float;
pub mod half;
pub mod int;
pub(crate) mod simd;
pub mod tile;

/// A 32-bit register of a warp.
pub type Lanes = [u32; 32];
/// A 64-bit register of a warp.
pub type Lanes64 = [u64; 32];

/// The NaN every f32 instruction produces.
pub const NAN_F32: u32 = 0x7fff_ffff;
/// The NaN every f16 and bf16 instruction produces.
pub const NAN_F16: u32 = 0x7fff;

/// Rounding modes of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Round {
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
