use super::*;
use crate::num::Round;
use crate::num::exact;
use crate::num::testing::Rng;

const PLAIN: HalfMods = HalfMods { ftz: false, sat: false, relu: false };

fn format(ty: HalfTy) -> exact::Format {
    match ty {
        HalfTy::F16 => exact::F16,
        HalfTy::Bf16 => exact::BF16,
    }
}

#[test]
fn every_operation_is_rounded_once() {
    let mut rng = Rng(31);
    for _ in 0..40_000 {
        let (a, b, c) = (rng.half(), rng.half(), rng.half());
        for ty in [HalfTy::F16, HalfTy::Bf16] {
            let f = format(ty);
            let [x, y, z] = [a, b, c].map(u64::from);
            let n = Round::Nearest;
            let same = |got: u32, want: u64| assert_eq!(u64::from(got), want, "{ty:?} {a:#x} {b:#x} {c:#x}");
            same(binary(ty, HalfOp::Add, PLAIN, a, b), exact::add(f, x, y, n));
            same(binary(ty, HalfOp::Sub, PLAIN, a, b), exact::add(f, x, y ^ 0x8000, n));
            same(binary(ty, HalfOp::Mul, PLAIN, a, b), exact::mul(f, x, y, n));
            same(fma(ty, PLAIN, a, b, c), exact::fma(f, x, y, z, n));
        }
    }
}

/// The product is exactly between two bf16, and the addend is far smaller. Only the sign of the addend decides the
/// result.
#[test]
fn bf16_fma_sees_the_smallest_addend() {
    let (a, b) = (0x3f81, 0x3fc0); // (1 + 2^-7) · 1.5 = 1.51171875, a tie in bf16
    let above = fma(HalfTy::Bf16, PLAIN, a, b, 1);
    let below = fma(HalfTy::Bf16, PLAIN, a, b, 0x8001);
    assert_eq!(above, below + 1);
}

#[test]
fn modifiers_apply_to_operands_and_results() {
    let sat = HalfMods { sat: true, ..PLAIN };
    assert_eq!(binary(HalfTy::F16, HalfOp::Add, sat, 0x3c00, 0x3c00), 0x3c00);
    assert_eq!(binary(HalfTy::F16, HalfOp::Sub, sat, 0, 0x3c00), 0);
    assert_eq!(binary(HalfTy::F16, HalfOp::Add, sat, 0x7e00, 0x3c00), 0);
    let relu = HalfMods { relu: true, ..PLAIN };
    assert_eq!(fma(HalfTy::Bf16, relu, 0xbf80, 0x3f80, 0), 0);
    assert_eq!(fma(HalfTy::F16, relu, 0x7e00, 0x3c00, 0), NAN_F16);
    let ftz = HalfMods { ftz: true, ..PLAIN };
    assert_eq!(binary(HalfTy::F16, HalfOp::Add, ftz, 0x8001, 0x8000), 0x8000);
    assert_eq!(binary(HalfTy::F16, HalfOp::Mul, ftz, 0x0400, 0x3800), 0);
    // Just below the smallest normal number. An H200 flushes this value, although it would round to the smallest
    // normal number.
    assert_eq!(binary(HalfTy::F16, HalfOp::Mul, ftz, 0x3bff, 0x8400), 0x8000);
    assert_eq!(binary(HalfTy::F16, HalfOp::Mul, PLAIN, 0x3bff, 0x8400), 0x8400);
    assert_eq!(fma(HalfTy::F16, ftz, 0x3bff, 0x0400, 0), 0);
    // Too close to the smallest normal number for 11 bits to represent the difference, so not flushed.
    assert_eq!(fma(HalfTy::F16, ftz, 0x8400, 0x8400, 0x8400), 0x8400);
    assert_eq!(fma(HalfTy::F16, ftz, 0x0400, 0x8b09, 0x0400), 0x0400);
    assert_eq!(neg(HalfTy::F16, false, 0xfe01), NAN_F16);
    assert_eq!(abs(HalfTy::Bf16, false, 0xbf80), 0x3f80);
}
