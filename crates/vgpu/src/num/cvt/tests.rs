use super::*;
use crate::num::testing::{ROUNDS, Rng};

const INTEGERS: [Ty; 8] = [Ty::U8, Ty::S8, Ty::U16, Ty::S16, Ty::U32, Ty::S32, Ty::U64, Ty::S64];
const FLOATS: [Ty; 4] = [Ty::F16, Ty::Bf16, Ty::F32, Ty::F64];

/// The exact value of a float of any type, in f64.
fn value(ty: Ty, bits: u64) -> f64 {
    match ty {
        Ty::F16 => f64::from(codec::f16_to_f32(bits as u32 & 0xffff)),
        Ty::Bf16 => f64::from(codec::bf16_to_f32(bits as u32)),
        Ty::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

fn operand(rng: &mut Rng, ty: Ty) -> u64 {
    match ty {
        Ty::F16 | Ty::Bf16 => u64::from(rng.half()),
        Ty::F32 => u64::from(rng.f32().to_bits()),
        Ty::F64 => rng.f64().to_bits(),
        _ => match rng.below(3) {
            0 => rng.u64(),
            1 => (rng.below(600) as i64 - 300) as u64,
            _ => (1u64 << rng.below(64)).wrapping_add(rng.below(5)).wrapping_sub(2),
        },
    }
}

fn range(ty: Ty) -> (i128, i128) {
    let (signed, width) = ty.integer().unwrap();
    if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

/// Whether a value of the type needs a 64-bit register.
fn is_wide(ty: Ty) -> bool {
    matches!(ty, Ty::U64 | Ty::S64 | Ty::F64)
}

#[test]
fn integers_truncate_extend_and_clamp() {
    let mut rng = Rng(61);
    for _ in 0..3_000 {
        for src in INTEGERS {
            for dst in INTEGERS {
                let a = operand(&mut rng, src);
                let (low, high) = range(src);
                let span = high - low + 1;
                let x = (i128::from(a) - low).rem_euclid(span) + low;
                let (low, high) = range(dst);
                let wrapped = (x - low).rem_euclid(high - low + 1) + low;
                let op = Cvt::new(dst, src);
                assert_eq!(op.scalar(a), wrapped as u64, "{op:?} {a:#x}");
                assert_eq!(Cvt { sat: true, ..op }.scalar(a), x.clamp(low, high) as u64, "sat {op:?} {a:#x}");
            }
        }
    }
}

#[test]
fn floats_round_and_clamp_to_integers() {
    let mut rng = Rng(62);
    for _ in 0..2_000 {
        for src in FLOATS {
            let a = operand(&mut rng, src);
            let x = value(src, a);
            for dst in INTEGERS {
                for round in ROUNDS {
                    let got = Cvt { round, integral: true, ..Cvt::new(dst, src) }.scalar(a);
                    let (low, high) = range(dst);
                    let want = if x.is_nan() {
                        let wide = src == Ty::F64 || is_wide(dst);
                        if wide { if low < 0 { low } else { high / 2 + 1 } } else { 0 }
                    } else {
                        let integral = match round {
                            Round::Nearest | Round::NearestAway => x.round_ties_even(),
                            Round::Zero => x.trunc(),
                            Round::Down => x.floor(),
                            Round::Up => x.ceil(),
                        };
                        (integral as i128).clamp(low, high)
                    };
                    assert_eq!(got, want as u64, "{dst:?} {src:?} {round:?} {x:e}");
                }
            }
        }
    }
}

/// The results of rounding down and up enclose the integer and are neighbours. Rounding to nearest gives the nearer
/// one, and the even one on ties.
#[test]
fn integers_round_to_floats() {
    let mut rng = Rng(63);
    for _ in 0..2_000 {
        for src in INTEGERS {
            let a = operand(&mut rng, src);
            let (low, high) = range(src);
            let x = (i128::from(a) - low).rem_euclid(high - low + 1) + low;
            for dst in [Ty::Bf16, Ty::F32, Ty::F64] {
                let [near, zero, down, up] =
                    ROUNDS.map(|round| Cvt { round, ..Cvt::new(dst, src) }.scalar(a));
                let [n, d, u] = [near, down, up].map(|bits| value(dst, bits) as i128);
                assert!(d <= x && x <= u, "{dst:?} {src:?} {x}");
                assert!(down.abs_diff(up) <= 1);
                assert_eq!(zero, if x < 0 { up } else { down });
                assert!((n - x).abs() <= (d - x).abs() && (n - x).abs() <= (u - x).abs());
                assert!(d == u || x - d != u - x || near & 1 == 0, "tie to odd");
            }
        }
    }
    let to_f16 = |round, x: u64| Cvt { round, ..Cvt::new(Ty::F16, Ty::U32) }.scalar(x);
    assert_eq!(to_f16(Round::Nearest, 65519), 0x7bff);
    assert_eq!(to_f16(Round::Nearest, 65520), 0x7c00);
    assert_eq!(to_f16(Round::Zero, u64::from(u32::MAX)), 0x7bff);
}

#[test]
fn floats_round_to_floats() {
    let mut rng = Rng(64);
    for _ in 0..20_000 {
        for src in FLOATS {
            let a = operand(&mut rng, src);
            let x = value(src, a);
            if x.is_nan() {
                continue;
            }
            for dst in FLOATS {
                let [near, zero, down, up] =
                    ROUNDS.map(|round| Cvt { round, ..Cvt::new(dst, src) }.scalar(a));
                let [n, z, d, u] = [near, zero, down, up].map(|bits| value(dst, bits));
                assert!(d <= x && x <= u, "{dst:?} {src:?} {x:e}: {d:e} {u:e}");
                assert!(d == u || down.abs_diff(up) == 1 || d == 0.0 || u == 0.0);
                assert_eq!(z, if x < 0.0 { u } else { d });
                assert!(n == d || n == u);
                if d.is_finite() && u.is_finite() && d != u {
                    assert!((n - x).abs() <= (x - d).min(u - x), "{dst:?} {src:?} {x:e}");
                }
            }
        }
    }
    // Compare with the rounding of the host CPU.
    for _ in 0..50_000 {
        let x = rng.f64();
        let got = Cvt::new(Ty::F32, Ty::F64).scalar(x.to_bits()) as u32;
        assert!(got == (x as f32).to_bits() || x.is_nan(), "{x:e}");
    }
}

#[test]
fn modifiers() {
    let one = |op: Cvt, x: f32| op.scalar(u64::from(x.to_bits()));
    let f32_f32 = Cvt::new(Ty::F32, Ty::F32);
    assert_eq!(one(Cvt { sat: true, ..f32_f32 }, -0.5), 0);
    assert_eq!(one(Cvt { sat: true, ..f32_f32 }, f32::NAN), 0);
    assert_eq!(one(Cvt { sat: true, ..f32_f32 }, 7.0), u64::from(1f32.to_bits()));
    assert_eq!(one(Cvt { ftz: true, ..f32_f32 }, -1e-40), 0x8000_0000);
    let up = Cvt { integral: true, round: Round::Up, ..Cvt::new(Ty::S32, Ty::F32) };
    assert_eq!((one(up, 1e-40), one(Cvt { ftz: true, ..up }, 1e-40)), (1, 0));
    let half = Cvt::new(Ty::F16, Ty::F32);
    assert_eq!(one(Cvt { satfinite: true, ..half }, 1e9), 0x7bff);
    assert_eq!(one(Cvt { relu: true, ..half }, -2.0), 0);
    assert_eq!(one(Cvt { relu: true, ..half }, -f32::NAN), 0x7fff);
    assert_eq!(
        one(Cvt { round: Round::NearestAway, ..Cvt::new(Ty::Tf32, Ty::F32) }, f32::from_bits(0x3f80_1000)),
        0x3f80_2000
    );
    assert_eq!(
        one(Cvt { round: Round::Nearest, ..Cvt::new(Ty::Tf32, Ty::F32) }, f32::from_bits(0x3f80_1000)),
        0x3f80_0000
    );
    let floor = Cvt { integral: true, round: Round::Down, ..f32_f32 };
    assert_eq!(one(floor, -0.5), u64::from((-1f32).to_bits()));
    assert_eq!(one(Cvt { round: Round::Nearest, ..floor }, -0.5), 0x8000_0000, "the sign of zero stays");
}

#[test]
fn packed_forms_put_the_first_operand_on_top() {
    let (a, b) = (u64::from(1f32.to_bits()), u64::from((-2f32).to_bits()));
    assert_eq!(Cvt::new(Ty::F16x2, Ty::F32).pair(a, b), 0x3c00_c000);
    assert_eq!(Cvt::new(Ty::Bf16x2, Ty::F32).pair(a, b), 0x3f80_c000);
    let e4m3 = Cvt { satfinite: true, ..Cvt::new(Ty::E4m3x2, Ty::F32) };
    assert_eq!(e4m3.pair(a, b), 0x38c0);
    assert_eq!(Cvt { relu: true, ..e4m3 }.pair(a, b), 0x3800);
    assert_eq!(Cvt { satfinite: true, ..Cvt::new(Ty::E5m2x2, Ty::F16x2) }.scalar(0x3c00_c000), 0x3cc0);
    assert_eq!(Cvt::new(Ty::F16x2, Ty::E4m3x2).scalar(0x38ff), 0x3c00_7fff);
    assert_eq!(
        Cvt { round: Round::Up, ..Cvt::new(Ty::Ue8m0x2, Ty::F32) }.pair(a, u64::from(3f32.to_bits())),
        0x7f81
    );
    assert_eq!(Cvt::new(Ty::Bf16x2, Ty::Ue8m0x2).scalar(0x7f80), 0x3f80_4000);
}

/// The bulk functions must agree with the scalar function in every form, vectorised or not.
#[test]
fn bulk_forms_agree_with_the_scalar_one() {
    let types = [INTEGERS.as_slice(), &FLOATS].concat();
    let mut rng = Rng(65);
    for &src in &types {
        for &dst in &types {
            let to_integer = src.format().is_some() && dst.format().is_none();
            let same = src == dst && src.format().is_some();
            for round in ROUNDS {
                for flags in 0..8 {
                    let op = Cvt {
                        round,
                        integral: to_integer || same && flags & 4 != 0,
                        ftz: flags & 1 != 0 && (src == Ty::F32 || dst == Ty::F32),
                        sat: flags & 2 != 0,
                        ..Cvt::new(dst, src)
                    };
                    let a: Lanes64 = std::array::from_fn(|_| operand(&mut rng, src));
                    let narrow = a.map(|x| x as u32);
                    let want = a.map(|x| op.scalar(x));
                    let low = want.map(|x| x as u32);
                    let (mut out, mut wide) = ([0; 32], [0; 32]);
                    match (is_wide(src), is_wide(dst)) {
                        (false, false) => {
                            lanes_32_32(op, &narrow, &mut out);
                            assert_eq!(out, low, "{op:?}");
                            body_32_32::<false>(op, &narrow, &mut out);
                            assert_eq!(out, low, "baseline {op:?}");
                        }
                        (true, false) => {
                            lanes_64_32(op, &a, &mut out);
                            assert_eq!(out, low, "{op:?} {a:x?}");
                        }
                        (false, true) => {
                            lanes_32_64(op, &narrow, &mut wide);
                            assert_eq!(wide, want, "{op:?}");
                        }
                        (true, true) => {
                            lanes_64_64(op, &a, &mut wide);
                            assert_eq!(wide, want, "{op:?}");
                        }
                    }
                }
            }
        }
    }
    for dst in [Ty::F16x2, Ty::Bf16x2, Ty::E4m3x2, Ty::E5m2x2] {
        for flags in 0..4 {
            let satfinite = flags & 2 != 0 || matches!(dst, Ty::E4m3x2 | Ty::E5m2x2);
            let op = Cvt { relu: flags & 1 != 0, satfinite, ..Cvt::new(dst, Ty::F32) };
            for _ in 0..50 {
                let (a, b) = (rng.lanes(|r| r.f32().to_bits()), rng.lanes(|r| r.f32().to_bits()));
                let want = std::array::from_fn(|i| op.pair(u64::from(a[i]), u64::from(b[i])) as u32);
                let mut out = [0; 32];
                lanes_pair(op, &a, &b, &mut out);
                assert_eq!(out, want, "{op:?}");
            }
        }
    }
    for (dst, src) in
        [(Ty::F16x2, Ty::E4m3x2), (Ty::F16x2, Ty::E5m2x2), (Ty::E4m3x2, Ty::F16x2), (Ty::E5m2x2, Ty::F16x2)]
    {
        let op = Cvt { satfinite: dst != Ty::F16x2, ..Cvt::new(dst, src) };
        for code in (0..=0xffff_u32).step_by(32) {
            let a: Lanes = std::array::from_fn(|i| {
                let low = code + i as u32;
                if src == Ty::F16x2 { low << 16 | low.wrapping_mul(40503) & 0xffff } else { low }
            });
            let mut out = [0; 32];
            lanes_32_32(op, &a, &mut out);
            assert_eq!(out, a.map(|x| op.scalar(u64::from(x)) as u32), "{op:?}");
        }
    }
}
