use super::*;
use crate::num::testing::{ROUNDS, Rng};

fn bits(x: f32) -> u64 {
    u64::from(x.to_bits())
}

/// Compares the error-free transformations in f64 with integer arithmetic.
#[test]
fn f32_arithmetic_is_exact_in_every_mode() {
    let mut rng = Rng(21);
    for i in 0..30_000 {
        let (a, mut b, mut c) = (rng.f32(), rng.f32(), rng.f32());
        match i % 8 {
            0 => b = -a,
            1 => c = -(a * b),
            2 => c = (a * b).next_up(),
            _ => {}
        }
        for r in ROUNDS {
            let same = |got: f32, want: u64| assert_eq!(bits(got), want, "{a:e} {b:e} {c:e} {r:?}: {got:e}");
            same(add(a, b, r), exact::add(exact::F32, bits(a), bits(b), r));
            same(sub(a, b, r), exact::add(exact::F32, bits(a), bits(-b), r));
            same(mul(a, b, r), exact::mul(exact::F32, bits(a), bits(b), r));
            same(div(a, b, r), exact::div(exact::F32, bits(a), bits(b), r));
            same(rcp(a, r), exact::div(exact::F32, bits(1.0), bits(a), r));
            same(sqrt(a, r), exact::sqrt(exact::F32, bits(a), r));
            same(fma(a, b, c, r), exact::fma(exact::F32, bits(a), bits(b), bits(c), r));
        }
    }
}

#[test]
fn directed_sums_of_opposites_have_the_right_zero() {
    assert_eq!(add(1.0, -1.0, Round::Down).to_bits(), (-0f32).to_bits());
    assert_eq!(add(1.0, -1.0, Round::Up).to_bits(), 0);
    assert_eq!(add(0.0, -0.0, Round::Down).to_bits(), (-0f32).to_bits());
    assert_eq!(add(0.0, 0.0, Round::Down).to_bits(), 0);
    assert_eq!(add_f64(1.0, -1.0, Round::Down).to_bits(), 1 << 63);
    assert_eq!(sub_f64(0.0, 0.0, Round::Nearest).to_bits(), 0);
}

#[test]
fn min_and_max_follow_the_nan_rules() {
    let nan = f32::from_bits(0xffc0_0001);
    let plain = |max| MinMax { max, ..MinMax::default() };
    for max in [false, true] {
        assert_eq!(min_max(nan, 2.0, plain(max)), 2.0);
        assert_eq!(min_max(2.0, nan, plain(max)), 2.0);
        assert_eq!(min_max(nan, nan, plain(max)).to_bits(), NAN_F32);
        assert_eq!(min_max(nan, 2.0, MinMax { nan: true, ..plain(max) }).to_bits(), NAN_F32);
        assert!(min_max_f64(f64::NAN, 3.0, max) == 3.0);
    }
    assert_eq!(min_max(0.0, -0.0, plain(false)).to_bits(), 0x8000_0000);
    assert_eq!(min_max(-0.0, 0.0, plain(true)).to_bits(), 0);
    let xorsign = MinMax { xorsign: true, ..plain(true) };
    assert_eq!(min_max(-3.0, 2.0, xorsign), -3.0);
    assert_eq!(min_max(-3.0, -2.0, xorsign), 3.0);
    assert_eq!(min_max(f32::from_bits(5), -0.0, MinMax { ftz: true, ..plain(true) }).to_bits(), 0);
}

#[test]
fn saturation_flushing_and_canonical_nans() {
    assert_eq!(saturate(f32::NAN).to_bits(), 0);
    assert_eq!(saturate(-0.0).to_bits(), 0);
    assert_eq!(saturate(1.5), 1.0);
    assert_eq!(saturate(0.25), 0.25);
    assert_eq!(ftz(f32::from_bits(0x807f_ffff)).to_bits(), 0x8000_0000);
    assert_eq!(ftz(f32::MIN_POSITIVE), f32::MIN_POSITIVE);
    assert_eq!(add(f32::INFINITY, f32::NEG_INFINITY, Round::Nearest).to_bits(), NAN_F32);
    assert_eq!(mul(f32::from_bits(0xffc1_2345), 1.0, Round::Nearest).to_bits(), NAN_F32);
    assert_eq!(copysign(0x8000_0000, 0x3f80_0000), 0xbf80_0000);
}

/// The replacement of NaNs must survive vectorisation.
#[test]
fn nans_are_canonical_in_loops_too() {
    let a: [f32; 32] = std::array::from_fn(|i| if i % 3 == 0 { -1.0 } else { f32::from_bits(0xff80_0001) });
    let mut out = [0; 32];
    for (out, a) in out.iter_mut().zip(std::hint::black_box(a)) {
        *out = canonical(a.sqrt()).to_bits();
    }
    assert_eq!(out, [NAN_F32; 32]);
}

#[test]
fn comparisons_with_nan() {
    use FloatCmp::{Eq, Equ, Ge, Geu, Gt, Gtu, Le, Leu, Lt, Ltu, Nan, Ne, Neu, Num};
    let all = [Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan];
    let holds = |a: f64, b: f64| -> Vec<FloatCmp> { all.into_iter().filter(|&c| compare(c, a, b)).collect() };
    assert_eq!(holds(1.0, 2.0), [Ne, Lt, Le, Neu, Ltu, Leu, Num]);
    assert_eq!(holds(2.0, 2.0), [Eq, Le, Ge, Equ, Leu, Geu, Num]);
    assert_eq!(holds(f64::NAN, 2.0), [Equ, Neu, Ltu, Leu, Gtu, Geu, Nan]);
}

#[test]
fn classes_count_zero_as_normal() {
    assert!(test_f32(Class::Normal, 0.0) && !test_f32(Class::Subnormal, 0.0));
    assert!(test_f32(Class::Subnormal, f32::from_bits(1)));
    assert!(!test_f64(Class::Normal, f64::INFINITY) && test_f64(Class::NotANumber, f64::NAN));
}

/// Expected values come from an H200. A product just below the smallest normal number is flushed if 24 bits hold it.
/// It is not flushed if it rounds up.
#[test]
fn flushing_judges_the_rounded_value() {
    let [a, b] = [0x3f7f_f000, 0x0080_0800].map(f32::from_bits); // 2^-126 (1 - 2^-24)
    assert_eq!(mul_ftz(a, b, Round::Nearest).to_bits(), 0);
    assert_eq!(mul_ftz(-a, b, Round::Nearest).to_bits(), 0x8000_0000);
    assert_eq!(fma_ftz(a, b, -0.0, Round::Nearest).to_bits(), 0);
    let [a, b] = [0x3f7f_f800, 0x0080_0400].map(f32::from_bits); // 2^-126 (1 - 2^-26)
    assert_eq!(mul_ftz(a, b, Round::Nearest), f32::MIN_POSITIVE);
    assert_eq!(mul_ftz(a, b, Round::Up), f32::MIN_POSITIVE);
    assert_eq!(mul_ftz(a, b, Round::Zero), 0.0);
    assert_eq!(mul_ftz(f32::from_bits(1), 1e30, Round::Nearest), 0.0, "operands are flushed first");
}

/// An H200 keeps the second of two NaN operands. Of three operands it prefers the third to the first.
#[test]
fn f64_nans_keep_a_payload() {
    let [x, y, z] = [0x7ff8_0000_0000_0011, 0xfff8_0000_0000_0022, 0x7ff0_0000_0000_0033].map(f64::from_bits);
    for r in ROUNDS {
        assert_eq!(add_f64(x, y, r).to_bits(), y.to_bits());
        assert_eq!(sub_f64(x, y, r).to_bits(), y.to_bits());
        assert_eq!(mul_f64(y, x, r).to_bits(), x.to_bits());
        assert_eq!(div_f64(x, z, r).to_bits(), 0x7ff8_0000_0000_0033);
        assert_eq!(fma_f64(z, 1.0, y, r).to_bits(), y.to_bits());
        assert_eq!(fma_f64(x, y, z, r).to_bits(), y.to_bits());
        assert_eq!(sqrt_f64(z, r).to_bits(), 0x7ff8_0000_0000_0033);
        assert_eq!(mul_f64(f64::INFINITY, 0.0, r).to_bits(), 0xfff8_0000_0000_0000);
    }
    assert_eq!(min_max_f64(x, y, false).to_bits(), y.to_bits());
}
