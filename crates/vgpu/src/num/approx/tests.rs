use super::*;
use crate::num::testing::Rng;

/// Distance from the exact value, in units of the last place of the result.
fn ulps(got: f32, exact: f64) -> f64 {
    if got.is_infinite() || (exact as f32).is_infinite() {
        return if f64::from(got) == f64::from(exact as f32) { 0.0 } else { f64::INFINITY };
    }
    let near = (exact.abs() as f32).max(f32::MIN_POSITIVE);
    let unit = f64::from(near.next_up()) - f64::from(near);
    (f64::from(got) - exact).abs() / unit
}

fn worst(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, mut x: impl FnMut(&mut Rng) -> f32) -> f64 {
    let mut rng = Rng(51);
    (0..30_000)
        .map(|_| x(&mut rng))
        .filter(|x| !x.is_nan())
        .map(|x| ulps(f(x), exact(f64::from(x))))
        .fold(0.0, f64::max)
}

/// The bound of this implementation in the table.
fn promised(instruction: &str) -> f64 {
    BOUNDS
        .iter()
        .filter(|row| row.instruction == instruction)
        .find_map(|row| match row.here {
            Bound::Ulp(x) => Some(x),
            _ => None,
        })
        .unwrap()
}

/// Random bits: the exponent is uniform, and both signs occur.
fn any_size(rng: &mut Rng) -> f32 {
    f32::from_bits(rng.u32())
}

fn positive(rng: &mut Rng) -> f32 {
    f32::from_bits(rng.u32() >> 1).min(f32::MAX)
}

fn within(limit: f32) -> impl Fn(&mut Rng) -> f32 {
    move |rng| (rng.u32() as f32 / 4_294_967_296.0 * 2.0 - 1.0) * limit
}

#[test]
fn errors_are_within_the_promised_bounds() {
    let check = |name: &str, error: f64| {
        assert!(error <= promised(name), "{name}: {error} ulp, promised {}", promised(name));
    };
    check("ex2.approx.f32", worst(ex2, f64::exp2, within(150.0)));
    check("ex2.approx.f32", worst(ex2, f64::exp2, any_size));
    check("rcp.approx.f32", worst(rcp, |x| 1.0 / x, any_size));
    check("sqrt.approx.f32", worst(sqrt, f64::sqrt, positive));
    check("rsqrt.approx.f32", worst(rsqrt, |x| 1.0 / x.sqrt(), positive));
    check("sin.approx.f32", worst(sin, f64::sin, within(400.0)));
    check("cos.approx.f32", worst(cos, f64::cos, within(400.0)));
    check("tanh.approx.f32", worst(tanh, f64::tanh, any_size));
    check("tanh.approx.f32", worst(tanh, f64::tanh, within(10.0)));
    check("div.full.f32", worst(|x| div_full(x, 3.0), |x| x / 3.0, any_size));
    // The bound of lg2 is relative to its result. Near one the bound is absolute.
    let error = worst(lg2, f64::log2, positive);
    assert!(error <= 0.51, "lg2: {error} ulp");
}

#[test]
fn sine_and_cosine_of_large_arguments_are_reduced_exactly() {
    let error = worst(sin, f64::sin, within(TRIG_REDUCED));
    assert!(error < 0.6, "{error}");
    assert_eq!(sin(1e30), f64::from(1e30f32).sin() as f32);
    assert_eq!(cos(16_777_216.0), f64::cos(16_777_216.0) as f32);
}

/// Expected values come from the tables of special values in the PTX manual.
#[test]
fn special_values_follow_the_manual() {
    const INF: f32 = f32::INFINITY;
    const NEG: f32 = f32::NEG_INFINITY;
    const NAN: f32 = f32::NAN;
    type Row = (fn(f32) -> f32, &'static [(f32, f32)]);
    let nan = f32::from_bits(NAN_F32);
    let sub = f32::from_bits(0x0000_1234);
    let tables: [Row; 10] = [
        (ex2, &[(NEG, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (NAN, NAN), (128.0, INF), (-151.0, 0.0)]),
        (ex2_ftz, &[(NEG, 0.0), (-126.5, 0.0), (-126.0, f32::MIN_POSITIVE)]),
        (lg2, &[(NEG, NAN), (-1.0, NAN), (-0.0, NEG), (0.0, NEG), (INF, INF), (NAN, NAN), (8.0, 3.0)]),
        (rcp, &[(NEG, -0.0), (-0.0, NEG), (0.0, INF), (INF, 0.0), (NAN, NAN)]),
        (sqrt, &[(NEG, NAN), (-1.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN)]),
        (rsqrt, &[(NEG, NAN), (-1.0, NAN), (-0.0, NEG), (0.0, INF), (INF, 0.0), (NAN, NAN)]),
        (sin, &[(NEG, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN), (NAN, NAN)]),
        (cos, &[(NEG, NAN), (-0.0, 1.0), (0.0, 1.0), (INF, NAN), (NAN, NAN)]),
        (tanh, &[(NEG, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0), (NAN, NAN), (30.0, 1.0)]),
        (rcp_ftz, &[(-0.0, NEG), (1.7e38, 0.0)]),
    ];
    for (i, (f, rows)) in tables.iter().enumerate() {
        for &(x, want) in *rows {
            let want = if want.is_nan() { nan } else { want };
            assert_eq!(f(x).to_bits(), want.to_bits(), "table {i}: f({x:e}) = {:e}", f(x));
        }
    }
    assert_eq!(lg2_ftz(sub), NEG);
    assert_eq!(rcp_ftz(-sub), NEG);
    assert_eq!(rsqrt_ftz(-sub), NEG);
    assert!(lg2(sub) < -126.0);
    assert_eq!(tanh(sub).to_bits(), sub.to_bits());
}

#[test]
fn division_has_the_hole_of_hardware() {
    let big = f32::from_bits(0x7e80_0001);
    assert_eq!(div(1e38, big).to_bits(), 0);
    assert_eq!(div(-1e38, big).to_bits(), 0x8000_0000);
    assert_eq!(div(f32::INFINITY, big).to_bits(), NAN_F32);
    assert_eq!(div(1e38, f32::from_bits(0x7e80_0000)), 1e38 / f32::from_bits(0x7e80_0000));
    assert_eq!(div_full(1e38, big), 1e38 / big);
}

#[test]
fn halves_are_correctly_rounded() {
    for a in 0..=0xffffu32 {
        for ty in [HalfTy::F16, HalfTy::Bf16] {
            let x = widen(ty, a);
            if x.is_nan() {
                assert_eq!(ex2_half(ty, a, false), 0x7fff);
                assert_eq!(tanh_half(ty, a), 0x7fff);
                continue;
            }
            let nearest = |y: f64| half::narrow(ty, y as f32);
            let near = |got: u32, want: u32| got.abs_diff(want) <= 1;
            assert!(near(tanh_half(ty, a), nearest(f64::from(x).tanh())), "tanh {ty:?} {a:#x}");
            if ty == HalfTy::F16 {
                assert!(near(ex2_half(ty, a, false), nearest(f64::from(x).exp2())), "ex2 {a:#x}");
            }
        }
    }
}
