use super::*;
use crate::num::testing::Rng;

/// The arithmetic of the host CPU is the second model. Rounding to nearest must agree bit for bit, for f64 including
/// NaN payloads.
#[test]
fn nearest_agrees_with_the_machine() {
    let mut rng = Rng(11);
    let r = Round::Nearest;
    for _ in 0..50_000 {
        let (a, b, c) = (rng.f64(), rng.f64(), rng.f64());
        let [x, y, z] = [a, b, c].map(f64::to_bits);
        let nan_or = |want: f64, got: u64| {
            assert!(
                f64::from_bits(got).is_nan() && want.is_nan() || want.to_bits() == got,
                "{a:e} {b:e} {c:e}: {want:e} {:e}",
                f64::from_bits(got)
            );
        };
        nan_or(a + b, add(F64, x, y, r));
        nan_or(a * b, mul(F64, x, y, r));
        nan_or(a / b, div(F64, x, y, r));
        nan_or(a.sqrt(), sqrt(F64, x, r));
        nan_or(a.mul_add(b, c), fma(F64, x, y, z, r));
        let (a, b, c) = (rng.f32(), rng.f32(), rng.f32());
        let [x, y, z] = [a, b, c].map(|x| u64::from(x.to_bits()));
        let nan_or = |want: f32, got: u64| {
            assert!(got == F32.nan && want.is_nan() || u64::from(want.to_bits()) == got, "{a:e} {b:e} {c:e}");
        };
        nan_or(a + b, add(F32, x, y, r));
        nan_or(a * b, mul(F32, x, y, r));
        nan_or(a / b, div(F32, x, y, r));
        nan_or(a.sqrt(), sqrt(F32, x, r));
        nan_or(a.mul_add(b, c), fma(F32, x, y, z, r));
    }
}

/// Rounding down and rounding up must enclose the exact value and be at most one step apart. Rounding towards zero
/// must equal one of them.
#[test]
fn directed_modes_enclose_the_exact_value() {
    let mut rng = Rng(12);
    for _ in 0..30_000 {
        let (a, b, c) = (rng.f64().to_bits(), rng.f64().to_bits(), rng.f64().to_bits());
        let ops: [&dyn Fn(Round) -> u64; 5] = [
            &|r| add(F64, a, b, r),
            &|r| mul(F64, a, b, r),
            &|r| div(F64, a, b, r),
            &|r| sqrt(F64, a, r),
            &|r| fma(F64, a, b, c, r),
        ];
        for op in ops {
            let [n, z, d, u] =
                [Round::Nearest, Round::Zero, Round::Down, Round::Up].map(|r| f64::from_bits(op(r)));
            if n.is_nan() {
                assert!(z.is_nan() && d.is_nan() && u.is_nan());
                continue;
            }
            assert!(d <= n && n <= u, "{d:e} {n:e} {u:e}");
            assert!(d == u || d.next_up() == u || d == 0.0 && u == 0.0, "{d:e} {u:e}");
            assert_eq!(z, if n > 0.0 || d >= 0.0 { d } else { u });
        }
    }
}

#[test]
fn integers_round_like_casts() {
    let mut rng = Rng(13);
    for _ in 0..30_000 {
        let x = rng.u64() >> rng.below(64);
        assert_eq!(from_int(F64, false, x, Round::Nearest), (x as f64).to_bits());
        assert_eq!(
            from_int(F32, true, x, Round::Nearest) as u32,
            (-(x as f32)).to_bits() & if x == 0 { 0 } else { !0 }
        );
        let f = rng.f64();
        if let Value::Finite(v) = decode(F64, f.to_bits()) {
            assert_eq!(to_int(v, Round::Zero).1, f.abs() as u64, "{f:e}");
            assert_eq!(to_int(v, Round::Nearest).1, f.abs().round_ties_even() as u64, "{f:e}");
        }
    }
}
