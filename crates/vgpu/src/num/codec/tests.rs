use super::*;
use crate::num::Round;
use crate::num::exact::{self, Format};
use crate::num::testing::{Rng, magnitudes, round_by_search};

const HALF_MAX: f64 = 65504.0;

/// A format, its finite magnitudes, and its encoder with rounding to nearest.
type Case = (Format, Vec<f64>, fn(f32) -> u32);

fn cases() -> [Case; 4] {
    [
        (exact::F16, magnitudes(10, 5, HALF_MAX), f32_to_f16_rn),
        (exact::BF16, magnitudes(7, 8, f64::from(f32::from_bits(0x7f7f_0000))), f32_to_bf16_rn),
        (exact::E4M3, magnitudes(3, 4, 448.0), |x| u32::from(f32_to_e4m3(x))),
        (exact::E5M2, magnitudes(2, 5, 57344.0), |x| u32::from(f32_to_e5m2(x))),
    ]
}

/// Every value, every midpoint, and the f32 on either side of each.
fn interesting(values: &[f64]) -> impl Iterator<Item = f32> {
    values
        .iter()
        .zip(&values[1..])
        .flat_map(|(&a, &b)| [a, f64::midpoint(a, b)])
        .chain([values[values.len() - 1], values[values.len() - 1] * 1.01, values[values.len() - 1] * 1.5])
        .flat_map(|x| [(x as f32).next_down(), x as f32, (x as f32).next_up()])
        .filter(|x| x.is_finite() && *x >= 0.0)
}

/// f32 to f16, bf16 or tf32 ([`exact::F16`], …) in any rounding mode. Returns the code.
fn encode_f32(f: Format, x: f32, round: Round, satfinite: bool) -> u32 {
    exact::convert(exact::F32, f, u64::from(x.to_bits()), round, satfinite) as u32
}

#[test]
fn f16_decodes_every_code() {
    let values = magnitudes(10, 5, HALF_MAX);
    for h in 0..=0xffffu32 {
        let magnitude = h & 0x7fff;
        let got = f16_to_f32(h);
        match values.get(magnitude as usize) {
            Some(&v) => {
                assert_eq!(got.abs(), v as f32, "{h:#x}");
                assert_eq!(got.is_sign_negative(), h & 0x8000 != 0, "{h:#x}");
            }
            None if magnitude == 0x7c00 => {
                assert!(got.is_infinite() && got.is_sign_negative() == (h != 0x7c00));
            }
            None => assert_eq!(got.to_bits(), NAN_F32, "{h:#x}"),
        }
    }
}

#[test]
fn eight_bit_formats_decode_every_code() {
    let (e4m3, e5m2) = (magnitudes(3, 4, 448.0), magnitudes(2, 5, 57344.0));
    assert_eq!((e4m3.len(), e5m2.len()), (127, 124));
    for code in 0..=255u8 {
        let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
        let at = usize::from(code & 0x7f);
        match e4m3.get(at) {
            Some(&v) => assert_eq!(e4m3_to_f32(code).to_bits(), (sign * v as f32).to_bits(), "{code:#x}"),
            None => assert_eq!(e4m3_to_f32(code).to_bits(), NAN_F32),
        }
        match e5m2.get(at) {
            Some(&v) => assert_eq!(e5m2_to_f32(code).to_bits(), (sign * v as f32).to_bits(), "{code:#x}"),
            None if at == 0x7c => assert_eq!(e5m2_to_f32(code), sign * f32::INFINITY),
            None => assert!(e5m2_to_f32(code).is_nan()),
        }
    }
}

#[test]
fn encoders_round_every_halfway_case() {
    for (format, values, nearest) in cases() {
        let fp8 = format.man < 5;
        let overflow = if fp8 { format.max_finite() } else { format.inf() } as u32;
        for x in interesting(&values) {
            for neg in [false, true] {
                let sign = if neg { format.sign() as u32 } else { 0 };
                let signed = if neg { -x } else { x };
                let want =
                    round_by_search(&values, f64::from(x), neg, Round::Nearest).unwrap_or(overflow) | sign;
                assert_eq!(nearest(signed), want, "{format:?} {signed:e}");
                for round in [Round::Nearest, Round::Zero, Round::Down, Round::Up, Round::NearestAway] {
                    let to_inf = match round {
                        Round::Zero => false,
                        Round::Down => neg,
                        Round::Up => !neg,
                        _ => true,
                    };
                    let beyond = if to_inf { format.inf() } else { format.max_finite() } as u32;
                    let want = round_by_search(&values, f64::from(x), neg, round);
                    let got = encode_f32(format, signed, round, false);
                    assert_eq!(got, want.unwrap_or(beyond) | sign, "{format:?} {signed:e} {round:?}");
                    let clamped = encode_f32(format, signed, round, true);
                    assert_eq!(clamped, want.unwrap_or(format.max_finite() as u32) | sign);
                }
            }
        }
        assert_eq!(u64::from(nearest(f32::NAN)), format.nan);
        assert_eq!(u64::from(nearest(-f32::NAN)), format.nan);
        assert_eq!(nearest(f32::INFINITY), overflow);
    }
}

#[test]
fn fast_encoders_agree_with_the_exact_one_on_random_bits() {
    let mut rng = Rng(1);
    let cases = cases();
    for _ in 0..50_000 {
        let x = f32::from_bits(rng.u32());
        for (format, _, nearest) in &cases[..2] {
            assert_eq!(nearest(x), encode_f32(*format, x, Round::Nearest, false), "{format:?} {x:e}");
        }
        assert_eq!(u32::from(f32_to_e4m3(x)), encode_f32(exact::E4M3, x, Round::Nearest, true), "{x:e}");
        assert_eq!(u32::from(f32_to_e5m2(x)), encode_f32(exact::E5M2, x, Round::Nearest, true), "{x:e}");
        if x.is_finite() {
            let tf32 = encode_f32(exact::TF32, x, Round::NearestAway, false) << 13;
            assert_eq!(f32_to_tf32_rna(x), tf32, "{x:e}");
            let tf32 = encode_f32(exact::TF32, x, Round::NearestAway, true) << 13;
            assert_eq!(f32_to_tf32_rna_satfinite(x), tf32, "{x:e}");
        }
    }
}

#[test]
fn every_code_survives_the_round_trip() {
    for h in 0..=0xffffu32 {
        if h & 0x7fff <= 0x7c00 {
            assert_eq!(f32_to_f16_rn(f16_to_f32(h)), h);
        }
        if h & 0x7fff <= 0x7f80 {
            assert_eq!(f32_to_bf16_rn(bf16_to_f32(h)), h);
        }
    }
    for code in 0..=255u8 {
        if code & 0x7f != 0x7f {
            assert_eq!(f32_to_e4m3(e4m3_to_f32(code)), code);
        }
        if code & 0x7f < 0x7c {
            assert_eq!(f32_to_e5m2(e5m2_to_f32(code)), code);
        }
        if code != 255 {
            assert_eq!(f32_to_ue8m0(ue8m0_to_f32(code), false, false), code);
            assert_eq!(f32_to_ue8m0(ue8m0_to_f32(code), true, false), code);
        }
    }
}

#[test]
fn e4m3_quantiser_is_unbiased_and_clamps() {
    assert_eq!(e4m3_to_f32(f32_to_e4m3(449.0)), 448.0);
    assert_eq!(e4m3_to_f32(f32_to_e4m3(f32::NEG_INFINITY)), -448.0);
    // 464 is halfway between 448 and 480. The code that would be 480 is NaN.
    assert_eq!(f32_to_e4m3(464.0), 0x7e);
    let mut rng = Rng(2);
    let errors: f64 = (0..100_000)
        .map(|_| {
            let x = f32::from_bits(rng.u32() & 0x81ff_ffff | 0x3e00_0000);
            f64::from(e4m3_to_f32(f32_to_e4m3(x)) - x)
        })
        .sum();
    assert!(errors.abs() / 100_000.0 < 1e-3, "mean error {errors}");
}

#[test]
fn ue8m0_rounds_to_powers_of_two() {
    assert_eq!(f32_to_ue8m0(1.0, true, false), 127);
    assert_eq!(f32_to_ue8m0(1.5, false, false), 127);
    assert_eq!(f32_to_ue8m0(1.5, true, false), 128);
    assert_eq!(f32_to_ue8m0(f32::MAX, true, false), 255);
    assert_eq!(f32_to_ue8m0(f32::MAX, true, true), 254);
    assert_eq!(f32_to_ue8m0(0.0, false, true), 0);
}

#[test]
fn bulk_forms_agree_with_the_scalar_ones() {
    fn check<const F16C: bool>(rng: &mut Rng, run: [fn(&Lanes, &mut Lanes); 2]) {
        let a = rng.lanes(|r| r.f32().to_bits());
        let mut out = [0; 32];
        run[0](&a, &mut out);
        assert_eq!(out, a.map(|x| f32_to_f16_rn(f32::from_bits(x))));
        run[1](&a, &mut out);
        assert_eq!(out, a.map(|x| f16_to_f32(x & 0xffff).to_bits()));
    }
    let mut rng = Rng(3);
    for _ in 0..2_000 {
        check::<true>(&mut rng, [lanes_f32_to_f16, lanes_f16_to_f32]);
        check::<false>(&mut rng, [f32_to_f16_body::<false>, f16_to_f32_body::<false>]);
    }
}
