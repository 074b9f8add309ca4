//! Compares random straight-line programs with an independent scalar model. Every lane of a warp must compute what
//! the model computes, also when a guard disables half of the lanes.

// The model is written operation by operation, and the PTX text is built line by line.
#![allow(clippy::format_push_string, clippy::manual_checked_ops)]

use proptest::prelude::*;
use warpsmith_vgpu::{Checks, Device, Launch, Options, load};

const REGISTERS: usize = 6;

/// `d = op(a, b, c)` on registers of one class.
#[derive(Clone, Debug)]
struct Step {
    op: usize,
    d: usize,
    a: usize,
    b: usize,
    c: usize,
    guarded: bool,
}

type Model32 = fn(u32, u32, u32) -> u32;
type Model64 = fn(u64, u64, u64) -> u64;

fn fbin(a: u32, b: u32, f: fn(f32, f32) -> f32) -> u32 {
    let r = f(f32::from_bits(a), f32::from_bits(b));
    if r.is_nan() { 0x7fff_ffff } else { r.to_bits() }
}

/// Applies a function to the four bytes of two registers. The results replace the bytes of `c`.
fn bytes(a: u32, b: u32, f: fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|i| f(a[i], b[i])))
}

/// Applies a function to the two halves of two registers.
fn halves(a: u32, b: u32, f: fn(i16, i16) -> i16) -> u32 {
    let f = |shift: u32| u32::from(f((a >> shift) as i16, (b >> shift) as i16) as u16) << shift;
    f(0) | f(16)
}

/// Applies a function to the two f32 of two or three 64-bit registers.
fn pairs(a: u64, b: u64, c: u64, f: fn(f32, f32, f32) -> f32) -> u64 {
    let one = |shift: u32| {
        let x = |v: u64| f32::from_bits((v >> shift) as u32);
        let r = f(x(a), x(b), x(c));
        u64::from(if r.is_nan() { 0x7fff_ffff } else { r.to_bits() }) << shift
    };
    one(0) | one(32)
}

/// The largest of three numbers that are not NaN, or NaN. Of two zeros, +0 is larger.
fn largest(a: u32, b: u32, c: u32) -> u32 {
    let key = |v: u32| if v >> 31 == 1 { !v } else { v | 1 << 31 };
    let is_number = |v: &u32| !f32::from_bits(*v).is_nan();
    [a, b, c].into_iter().filter(is_number).max_by_key(|v| key(*v)).unwrap_or(0x7fff_ffff)
}

/// Mnemonic, number of sources, and the scalar model.
const OPS32: &[(&str, usize, Model32)] = &[
    ("add.u32", 2, |a, b, _| a.wrapping_add(b)),
    ("sub.s32", 2, |a, b, _| a.wrapping_sub(b)),
    ("mul.lo.u32", 2, |a, b, _| a.wrapping_mul(b)),
    ("mul.hi.u32", 2, |a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32),
    ("mul.hi.s32", 2, |a, b, _| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
    ("mad.lo.s32", 3, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
    ("min.s32", 2, |a, b, _| if (a as i32) < (b as i32) { a } else { b }),
    ("max.u32", 2, |a, b, _| if a > b { a } else { b }),
    ("and.b32", 2, |a, b, _| a & b),
    ("or.b32", 2, |a, b, _| a | b),
    ("xor.b32", 2, |a, b, _| a ^ b),
    ("not.b32", 1, |a, _, _| !a),
    ("neg.s32", 1, |a, _, _| 0u32.wrapping_sub(a)),
    ("shl.b32", 2, |a, b, _| if b > 31 { 0 } else { a << b }),
    ("shr.u32", 2, |a, b, _| if b > 31 { 0 } else { a >> b }),
    ("shr.s32", 2, |a, b, _| ((a as i32) >> if b > 31 { 31 } else { b }) as u32),
    ("popc.b32", 1, |a, _, _| (0..32).map(|i| a >> i & 1).sum()),
    ("clz.b32", 1, |a, _, _| (0..32).take_while(|i| a >> (31 - i) & 1 == 0).count() as u32),
    ("brev.b32", 1, |a, _, _| (0..32).fold(0, |r, i| r | (a >> i & 1) << (31 - i))),
    ("div.u32", 2, |a, b, _| if b == 0 { u32::MAX } else { a / b }),
    // The remainder of a division by zero is all ones, like the quotient (observed on an H200).
    ("rem.u32", 2, |a, b, _| if b == 0 { u32::MAX } else { a % b }),
    ("sad.u32", 3, |a, b, c| c.wrapping_add(a.abs_diff(b))),
    ("add.f32", 2, |a, b, _| fbin(a, b, |x, y| x + y)),
    ("sub.f32", 2, |a, b, _| fbin(a, b, |x, y| x - y)),
    ("mul.f32", 2, |a, b, _| fbin(a, b, |x, y| x * y)),
    ("neg.f32", 1, |a, _, _| fbin(a, 0, |x, _| -x)),
    ("abs.f32", 1, |a, _, _| fbin(a, 0, |x, _| x.abs())),
    ("max.f32", 3, largest),
    ("vadd4.u32.u32.u32", 3, |a, b, _| bytes(a, b, u8::wrapping_add)),
    ("vadd4.u32.u32.u32.sat", 3, |a, b, _| bytes(a, b, u8::saturating_add)),
    ("vsub4.s32.s32.s32.sat", 3, |a, b, _| bytes(a, b, |x, y| (x as i8).saturating_sub(y as i8) as u8)),
    ("vabsdiff4.u32.u32.u32", 3, |a, b, _| bytes(a, b, u8::abs_diff)),
    ("vabsdiff4.s32.s32.s32", 3, |a, b, _| bytes(a, b, |x, y| (x as i8).abs_diff(y as i8))),
    ("vabsdiff4.u32.u32.u32.add", 3, |a, b, c| {
        bytes(a, b, u8::abs_diff).to_le_bytes().iter().fold(c, |sum, x| sum.wrapping_add(u32::from(*x)))
    }),
    ("vavrg4.u32.u32.u32", 3, |a, b, _| bytes(a, b, |x, y| (u16::from(x) + u16::from(y)).div_ceil(2) as u8)),
    ("vmax4.s32.s32.s32", 3, |a, b, _| bytes(a, b, |x, y| (x as i8).max(y as i8) as u8)),
    ("vset4.u32.u32.lt", 3, |a, b, _| bytes(a, b, |x, y| u8::from(x < y))),
    ("vset2.s32.s32.ge.add", 3, |a, b, c| {
        let hits = halves(a, b, |x, y| i16::from(x >= y));
        c.wrapping_add((hits & 1) + (hits >> 16))
    }),
    ("vadd2.s32.s32.s32.sat", 3, |a, b, _| halves(a, b, i16::saturating_add)),
    ("vmin2.s32.s32.s32", 3, |a, b, _| halves(a, b, i16::min)),
    ("vadd.s32.s32.s32.sat", 2, |a, b, _| (a as i32).saturating_add(b as i32) as u32),
    ("vabsdiff.u32.s32.s32", 2, |a, b, _| (a as i32).abs_diff(b as i32)),
    // As on an H200, which differs from the manual.
    ("vadd.u32.u32.u32.sat", 2, |a, b, _| a.wrapping_add(b)),
    ("vabsdiff.s32.s32.s32.min", 3, |a, b, c| {
        let difference = (a as i32).abs_diff(b as i32);
        if i64::from(difference) < i64::from(c as i32) { difference } else { c }
    }),
    ("vsub.u32.u32.u32.max", 3, |a, b, c| {
        let difference = a.wrapping_sub(b);
        let both_high = difference >= 1 << 31 && c >= 1 << 31;
        if both_high || difference >= c { difference } else { c }
    }),
    ("vmax.s32.s32.s32.min", 3, |a, b, c| (a as i32).max(b as i32).min(c as i32) as u32),
    ("vshl.u32.u32.u32.clamp", 2, |a, b, _| a.checked_shl(b).unwrap_or(0)),
    // The bits above the 34th are lost before the result is saturated.
    ("vshl.u32.u32.u32.sat.clamp", 2, |a, b, _| {
        let bits = (u128::from(a) << b.min(32)) % (1 << 34);
        if bits >= 1 << 33 { 0 } else { bits.min(u32::MAX.into()) as u32 }
    }),
    ("vshl.s32.s32.u32.sat.clamp", 2, |a, b, _| {
        let bits = (i128::from(a as i32) << b.min(32)).rem_euclid(1 << 34);
        let value = if bits >= 1 << 33 { bits - (1 << 34) } else { bits };
        value.clamp(i32::MIN.into(), i32::MAX.into()) as u32
    }),
    ("vshr.s32.s32.u32.wrap", 2, |a, b, _| ((a as i32) >> (b % 32)) as u32),
];

const OPS64: &[(&str, usize, Model64)] = &[
    ("add.u64", 2, |a, b, _| a.wrapping_add(b)),
    ("sub.s64", 2, |a, b, _| a.wrapping_sub(b)),
    ("mul.lo.u64", 2, |a, b, _| a.wrapping_mul(b)),
    ("mul.hi.u64", 2, |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64),
    ("mad.lo.u64", 3, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
    ("min.u64", 2, |a, b, _| if a < b { a } else { b }),
    ("max.s64", 2, |a, b, _| if (a as i64) > (b as i64) { a } else { b }),
    ("and.b64", 2, |a, b, _| a & b),
    ("or.b64", 2, |a, b, _| a | b),
    ("xor.b64", 2, |a, b, _| a ^ b),
    ("not.b64", 1, |a, _, _| !a),
    ("div.u64", 2, |a, b, _| if b == 0 { u64::MAX } else { a / b }),
    ("add.f32x2", 2, |a, b, c| pairs(a, b, c, |x, y, _| x + y)),
    ("sub.rn.f32x2", 2, |a, b, c| pairs(a, b, c, |x, y, _| x - y)),
    ("mul.f32x2", 2, |a, b, c| pairs(a, b, c, |x, y, _| x * y)),
    ("fma.rn.f32x2", 3, |a, b, c| pairs(a, b, c, f32::mul_add)),
];

fn step(ops: usize) -> impl Strategy<Value = Step> {
    let r = 0..REGISTERS;
    (0..ops, r.clone(), r.clone(), r.clone(), r, any::<bool>()).prop_map(|(op, d, a, b, c, guarded)| Step {
        op,
        d,
        a,
        b,
        c,
        guarded,
    })
}

/// Returns the program as PTX. Registers are loaded from `p0`, the guard is "odd lane", and results are stored to
/// `p1`.
fn program(steps: &[Step], wide: bool) -> String {
    let (bytes, class, reg) = if wide { (8, "b64", "%v") } else { (4, "b32", "%v") };
    let mut text = format!(
        ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n\
         .reg .pred %p;\n.reg .b32 %t, %o;\n.reg .b64 %in, %out, %x;\n.reg .{class} %v<{REGISTERS}>;\n\
         ld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\nmov.u32 %t, %tid.x;\nand.b32 %o, %t, 1;\n\
         setp.ne.u32 %p, %o, 0;\nmul.wide.u32 %x, %t, {};\nadd.s64 %in, %in, %x;\nadd.s64 %out, %out, %x;\n",
        bytes * REGISTERS
    );
    for r in 0..REGISTERS {
        text += &format!("ld.global.{class} {reg}{r}, [%in+{}];\n", r * bytes);
    }
    for s in steps {
        let (name, n) = if wide { (OPS64[s.op].0, OPS64[s.op].1) } else { (OPS32[s.op].0, OPS32[s.op].1) };
        let guard = if s.guarded { "@%p " } else { "" };
        let sources: Vec<String> = [s.a, s.b, s.c][..n].iter().map(|r| format!("{reg}{r}")).collect();
        text += &format!("{guard}{name} {reg}{}, {};\n", s.d, sources.join(", "));
    }
    for r in 0..REGISTERS {
        text += &format!("st.global.{class} [%out+{}], {reg}{r};\n", r * bytes);
    }
    text + "ret;\n}\n"
}

fn execute(text: &str, input: &[u8], checks: Checks) -> Vec<u8> {
    let module = load(text).expect("generated programs are valid");
    let mut device = Device::default();
    let x = device.alloc(input.len() as u64, "in").expect("memory");
    let y = device.alloc(input.len() as u64, "out").expect("memory");
    device.write(x, input).expect("inside");
    let args = [x.0.to_le_bytes(), y.0.to_le_bytes()].concat();
    let launch =
        Launch { module: &module, kernel: "k", grid: [1; 3], block: [32, 1, 1], shared: 0, args: &args };
    let options = Options { checks, threads: 1, outputs: vec![y], ..Options::default() };
    let report = device.launch(&launch, &options).expect("launch");
    assert!(report.is_clean(), "{:?}", report.findings);
    let mut out = vec![0; input.len()];
    device.read(y, &mut out).expect("inside");
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn programs_of_32_bits(
        steps in prop::collection::vec(step(OPS32.len()), 1..40),
        input in prop::collection::vec(
            prop_oneof![any::<u32>(), 0u32..40, Just(0x3f80_0000), Just(0x8000_0000), Just(0x7f80_0000)],
            32 * REGISTERS,
        ),
        checked in any::<bool>(),
    ) {
        let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
        let got = execute(&program(&steps, false), &bytes, if checked { Checks::All } else { Checks::None });
        for (lane, regs) in input.chunks(REGISTERS).enumerate() {
            let mut r = regs.to_vec();
            for s in steps.iter().filter(|s| !s.guarded || lane % 2 == 1) {
                r[s.d] = OPS32[s.op].2(r[s.a], r[s.b], r[s.c]);
            }
            let want: Vec<u8> = r.iter().flat_map(|v| v.to_le_bytes()).collect();
            prop_assert_eq!(&got[lane * 4 * REGISTERS..(lane + 1) * 4 * REGISTERS], &want[..], "lane {}", lane);
        }
    }

    #[test]
    fn programs_of_64_bits(
        steps in prop::collection::vec(step(OPS64.len()), 1..40),
        input in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..40], 32 * REGISTERS),
    ) {
        let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
        let got = execute(&program(&steps, true), &bytes, Checks::None);
        for (lane, regs) in input.chunks(REGISTERS).enumerate() {
            let mut r = regs.to_vec();
            for s in steps.iter().filter(|s| !s.guarded || lane % 2 == 1) {
                r[s.d] = OPS64[s.op].2(r[s.a], r[s.b], r[s.c]);
            }
            let want: Vec<u8> = r.iter().flat_map(|v| v.to_le_bytes()).collect();
            prop_assert_eq!(&got[lane * 8 * REGISTERS..(lane + 1) * 8 * REGISTERS], &want[..], "lane {}", lane);
        }
    }
}
