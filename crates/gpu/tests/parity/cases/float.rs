//! f32 and f64 arithmetic with one rounding, in every rounding mode, and instructions that do not round.

use super::Table;
use crate::case::{RANDOM, exact, exact_on, per_value};
use crate::kernel::Width;
use crate::model::{self, Format, Mode, flush, saturate};
use crate::random::{Kind, Rng, operands};

const F32: (Kind, Width) = (Kind::F32, Width::B32);
const F64: (Kind, Width) = (Kind::F64, Width::B64);

pub fn add(table: &mut Table) {
    for mode in Mode::ALL {
        for ftz in [false, true] {
            for sat in [false, true] {
                for (operation, sources) in [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)] {
                    rounded_f32(table, operation, sources, mode, ftz, sat);
                }
            }
            for (operation, sources) in [("div", 2), ("rcp", 1), ("sqrt", 1)] {
                rounded_f32(table, operation, sources, mode, ftz, false);
            }
        }
        for (operation, sources) in
            [("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)]
        {
            let name = format!("{operation}.{}.f64", mode.suffix());
            table.add(&name.clone(), move || {
                let model = move |x: &[u64]| model::f64_operation(operation, mode, x);
                exact(&name, Width::B64, &vec![F64; sources], Some(Box::new(model)))
            });
        }
    }
    min_max(table);
    signs(table);
    comparisons(table);
    classes(table);
}

fn rounded_f32(table: &mut Table, operation: &'static str, sources: usize, mode: Mode, ftz: bool, sat: bool) {
    const ONE: u64 = 0x3f80_0000;
    let modifiers = format!("{}{}", if ftz { ".ftz" } else { "" }, if sat { ".sat" } else { "" });
    let name = format!("{operation}.{}{modifiers}.f32", mode.suffix());
    table.add(&name.clone(), move || {
        let model = move |x: &[u64]| {
            let x: Vec<u64> = x.iter().map(|&bits| if ftz { flush(bits) } else { bits }).collect();
            let bits = match operation {
                "add" => model::fma(Format::F32, mode, ftz, x[0], ONE, x[1]),
                "sub" => model::fma(Format::F32, mode, ftz, x[0], ONE, x[1] ^ 1 << 31),
                "mul" => model::mul(Format::F32, mode, ftz, x[0], x[1]),
                "fma" => model::fma(Format::F32, mode, ftz, x[0], x[1], x[2]),
                "div" => model::div_f32(mode, ftz, x[0], x[1]),
                "rcp" => model::div_f32(mode, ftz, ONE, x[0]),
                _ => model::sqrt_f32(mode, x[0]),
            };
            Some(if sat { saturate(bits) } else { bits })
        };
        exact(&name, Width::B32, &vec![F32; sources], Some(Box::new(model)))
    });
}

fn min_max(table: &mut Table) {
    for operation in ["min", "max"] {
        for ftz in ["", ".ftz"] {
            for nan in ["", ".NaN"] {
                for xorsign in ["", ".xorsign.abs"] {
                    let name = format!("{operation}{ftz}{nan}{xorsign}.f32");
                    table.add(&name.clone(), move || {
                        let model = move |x: &[u64]| {
                            let x: Vec<u64> = x
                                .iter()
                                .map(|&bits| if ftz.is_empty() { bits } else { flush(bits) })
                                .collect();
                            let is_nan = |bits: u64| f32::from_bits(bits as u32).is_nan();
                            if !nan.is_empty() && (is_nan(x[0]) || is_nan(x[1]))
                                || is_nan(x[0]) && is_nan(x[1])
                            {
                                return Some(0x7fff_ffff);
                            }
                            if !xorsign.is_empty() {
                                // With a NaN operand only hardware defines whose sign counts.
                                if is_nan(x[0]) || is_nan(x[1]) {
                                    return None;
                                }
                                let (a, b) = (x[0] & 0x7fff_ffff, x[1] & 0x7fff_ffff);
                                let picked = if operation == "min" { a.min(b) } else { a.max(b) };
                                return Some(picked | (x[0] ^ x[1]) & 1 << 31);
                            }
                            if is_nan(x[0]) || is_nan(x[1]) {
                                return Some(if is_nan(x[0]) { x[1] } else { x[0] });
                            }
                            // -0 is less than +0.
                            let key = |bits: u64| {
                                let magnitude = (bits & 0x7fff_ffff) as i64;
                                if bits >> 31 == 1 { -magnitude - 1 } else { magnitude }
                            };
                            let first = (key(x[0]) <= key(x[1])) == (operation == "min");
                            Some(if first { x[0] } else { x[1] })
                        };
                        exact(&name, Width::B32, &[F32; 2], Some(Box::new(model)))
                    });
                }
            }
        }
        let name = format!("{operation}.f64");
        table.add(&name.clone(), move || {
            let model = move |x: &[u64]| {
                let (a, b) = (f64::from_bits(x[0]), f64::from_bits(x[1]));
                if a.is_nan() || b.is_nan() || a == b {
                    return None;
                }
                Some((if operation == "min" { a.min(b) } else { a.max(b) }).to_bits())
            };
            exact(&name, Width::B64, &[F64; 2], Some(Box::new(model)))
        });
    }
}

fn signs(table: &mut Table) {
    for (name, f) in [
        ("abs.f32", (|x| x & 0x7fff_ffff) as fn(u64) -> u64),
        ("neg.f32", |x| x ^ 0x8000_0000),
        ("abs.ftz.f32", |x| flush(x) & 0x7fff_ffff),
        ("neg.ftz.f32", |x| flush(x) ^ 0x8000_0000),
    ] {
        table.add(name, move || {
            // Only hardware defines the sign and payload of a NaN result.
            let model = move |x: &[u64]| (!f32::from_bits(x[0] as u32).is_nan()).then(|| f(x[0]));
            exact(name, Width::B32, &[F32], Some(Box::new(model)))
        });
    }
    for (name, f) in [("abs.f64", (|x| x & !(1 << 63)) as fn(u64) -> u64), ("neg.f64", |x| x ^ 1 << 63)] {
        table.add(name, move || {
            let model = move |x: &[u64]| (!f64::from_bits(x[0]).is_nan()).then(|| f(x[0]));
            exact(name, Width::B64, &[F64], Some(Box::new(model)))
        });
    }
    table.add("copysign.f32", || {
        let model = |x: &[u64]| Some(x[0] & 1 << 31 | x[1] & 0x7fff_ffff);
        exact("copysign.f32", Width::B32, &[F32; 2], Some(Box::new(model)))
    });
    table.add("copysign.f64", || {
        let model = |x: &[u64]| Some(x[0] & 1 << 63 | x[1] & !(1 << 63));
        exact("copysign.f64", Width::B64, &[F64; 2], Some(Box::new(model)))
    });
}

type Comparison = fn(f64, f64) -> bool;

/// Every float comparison: the ordered ones, and those that are true for NaN.
const COMPARISONS: [(&str, Comparison); 14] = [
    ("eq", |a, b| a == b),
    ("ne", |a, b| a < b || a > b),
    ("lt", |a, b| a < b),
    ("le", |a, b| a <= b),
    ("gt", |a, b| a > b),
    ("ge", |a, b| a >= b),
    ("equ", |a, b| !(a < b || a > b)),
    ("neu", |a, b| a != b),
    ("ltu", |a, b| !(a >= b)),
    ("leu", |a, b| !(a > b)),
    ("gtu", |a, b| !(a <= b)),
    ("geu", |a, b| !(a < b)),
    ("num", |a, b| !a.is_nan() && !b.is_nan()),
    ("nan", |a, b| a.is_nan() || b.is_nan()),
];

fn comparisons(table: &mut Table) {
    let types: [(&str, (Kind, Width), fn(u64) -> f64); 5] = [
        ("f32", F32, |x| Format::F32.value(x)),
        ("ftz.f32", F32, |x| Format::F32.value(flush(x))),
        ("f64", F64, f64::from_bits),
        ("f16", (Kind::F16, Width::B16), |x| Format::F16.value(x)),
        ("bf16", (Kind::Bf16, Width::B16), |x| Format::Bf16.value(x)),
    ];
    for (ty, source, read) in types {
        for (operator, holds) in COMPARISONS {
            let name = format!("setp.{operator}.{ty}");
            table.add(&name.clone(), move || {
                let columns = operands(&mut Rng::for_name(&name), &[source; 2], RANDOM);
                let body = format!("setp.{operator}.{ty} %p, %a, %b;\nselp.b32 %d, 1, 0, %p;");
                let model = move |x: &[u64]| Some(u64::from(holds(read(x[0]), read(x[1]))));
                exact_on(&name, &body, &[Width::B32], columns, Some(per_value(Box::new(model))))
            });
        }
    }
    let results: [(&str, u64); 2] = [("f32", 0x3f80_0000), ("u32", 0xffff_ffff)];
    for (result, truth) in results {
        let name = format!("set.lt.{result}.f32");
        table.add(&name.clone(), move || {
            let model = move |x: &[u64]| {
                let less = Format::F32.value(x[0]) < Format::F32.value(x[1]);
                Some(if less { truth } else { 0 })
            };
            exact(&name, Width::B32, &[F32; 2], Some(Box::new(model)))
        });
    }
}

fn classes(table: &mut Table) {
    let tests: [(&str, fn(f64, f64) -> bool); 6] = [
        ("finite", |x, _| x.is_finite()),
        ("infinite", |x, _| x.is_infinite()),
        ("number", |x, _| !x.is_nan()),
        ("notanumber", |x, _| x.is_nan()),
        // Here the manual counts zero as a normal number.
        ("normal", |x, least| x.is_finite() && (x == 0.0 || x.abs() >= least)),
        ("subnormal", |x, least| x != 0.0 && x.abs() < least),
    ];
    for (class, holds) in tests {
        for (ty, source, least) in [("f32", F32, f64::exp2(-126.0)), ("f64", F64, f64::MIN_POSITIVE)] {
            let name = format!("testp.{class}.{ty}");
            table.add(&name.clone(), move || {
                let columns = operands(&mut Rng::for_name(&name), &[source], RANDOM);
                let body = format!("testp.{class}.{ty} %p, %a;\nselp.b32 %d, 1, 0, %p;");
                let model = move |x: &[u64]| {
                    let value = if ty == "f32" { Format::F32.value(x[0]) } else { f64::from_bits(x[0]) };
                    Some(u64::from(holds(value, least)))
                };
                exact_on(&name, &body, &[Width::B32], columns, Some(per_value(Box::new(model))))
            });
        }
    }
}
