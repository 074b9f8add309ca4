//! f16 and bf16 arithmetic, single and packed in pairs.

use super::Table;
use crate::case::exact;
use crate::kernel::Width;
use crate::model::{self, Format, Mode};
use crate::random::Kind;

#[derive(Clone, Copy)]
struct Half {
    name: &'static str,
    kind: Kind,
    format: Format,
    width: Width,
}

const TYPES: [Half; 4] = [
    Half { name: "f16", kind: Kind::F16, format: Format::F16, width: Width::B16 },
    Half { name: "f16x2", kind: Kind::F16, format: Format::F16, width: Width::B32 },
    Half { name: "bf16", kind: Kind::Bf16, format: Format::Bf16, width: Width::B16 },
    Half { name: "bf16x2", kind: Kind::Bf16, format: Format::Bf16, width: Width::B32 },
];

impl Half {
    fn is_bf16(self) -> bool {
        self.format == Format::Bf16
    }

    fn flush(self, code: u64) -> u64 {
        if code & self.format.infinity() == 0 { code & self.format.sign() } else { code }
    }
}

/// The model of one half.
type One = Box<dyn Fn(&[u64]) -> Option<u64>>;

/// The instruction on a single half, or on each half of a pair.
fn form(
    table: &mut Table,
    half: Half,
    modifiers: &str,
    sources: usize,
    model: impl Fn(&[u64]) -> Option<u64> + 'static,
) {
    let name = format!("{modifiers}.{}", half.name);
    let model: One = Box::new(model);
    table.add(&name.clone(), move || {
        let both = move |x: &[u64]| {
            let part = |shift: u32| model(&x.iter().map(|bits| bits >> shift & 0xffff).collect::<Vec<_>>());
            Some(if half.width == Width::B32 { part(16)? << 16 | part(0)? } else { part(0)? })
        };
        exact(&name, half.width, &vec![(half.kind, half.width); sources], Some(Box::new(both)))
    });
}

pub fn add(table: &mut Table) {
    for half in TYPES {
        arithmetic(table, half);
        min_max(table, half);
        signs(table, half);
    }
}

fn arithmetic(table: &mut Table, half: Half) {
    let format = half.format;
    let one = (format.infinity() >> 1) & !((1 << (if half.is_bf16() { 7 } else { 10 })) - 1);
    let finish = move |code: u64, sat: bool, relu: bool| {
        let value = format.value(code);
        match (sat, relu) {
            (true, _) if value.is_nan() || value <= 0.0 => 0,
            (true, _) if value >= 1.0 => one,
            (_, true) if !value.is_nan() && code & format.sign() != 0 => 0,
            _ => code,
        }
    };
    for (operation, sources) in [("add", 2), ("sub", 2), ("mul", 2), ("fma.rn", 3)] {
        for ftz in [false, true] {
            for (suffix, sat, relu) in [("", false, false), (".sat", true, false), (".relu", false, true)] {
                let absent = half.is_bf16() && (ftz || sat) || relu && operation != "fma.rn";
                if absent {
                    continue;
                }
                let modifiers = format!("{operation}{}{suffix}", if ftz { ".ftz" } else { "" });
                form(table, half, &modifiers, sources, move |x| {
                    let x: Vec<u64> =
                        x.iter().map(|&code| if ftz { half.flush(code) } else { code }).collect();
                    let code = match operation {
                        "add" => model::fma(format, Mode::Nearest, ftz, x[0], one, x[1]),
                        "sub" => model::fma(format, Mode::Nearest, ftz, x[0], one, x[1] ^ format.sign()),
                        "mul" => model::mul(format, Mode::Nearest, ftz, x[0], x[1]),
                        _ => model::fma(format, Mode::Nearest, ftz, x[0], x[1], x[2]),
                    };
                    Some(finish(code, sat, relu))
                });
            }
        }
    }
}

fn min_max(table: &mut Table, half: Half) {
    let format = half.format;
    for operation in ["min", "max"] {
        for ftz in ["", ".ftz"] {
            if !ftz.is_empty() && half.is_bf16() {
                continue;
            }
            for nan in ["", ".NaN"] {
                for xorsign in ["", ".xorsign.abs"] {
                    form(table, half, &format!("{operation}{ftz}{nan}{xorsign}"), 2, move |x| {
                        let x: Vec<u64> = x
                            .iter()
                            .map(|&code| if ftz.is_empty() { code } else { half.flush(code) })
                            .collect();
                        let is_nan = |code: u64| format.value(code).is_nan();
                        if !nan.is_empty() && (is_nan(x[0]) || is_nan(x[1])) || is_nan(x[0]) && is_nan(x[1]) {
                            return Some(format.nan());
                        }
                        if is_nan(x[0]) || is_nan(x[1]) {
                            let other = if is_nan(x[0]) { x[1] } else { x[0] };
                            return xorsign.is_empty().then_some(other);
                        }
                        let sign = format.sign();
                        if !xorsign.is_empty() {
                            let (a, b) = (x[0] & (sign - 1), x[1] & (sign - 1));
                            let picked = if operation == "min" { a.min(b) } else { a.max(b) };
                            return Some(picked | (x[0] ^ x[1]) & sign);
                        }
                        let key = |code: u64| {
                            let magnitude = (code & (sign - 1)) as i64;
                            if code & sign != 0 { -magnitude - 1 } else { magnitude }
                        };
                        let first = (key(x[0]) <= key(x[1])) == (operation == "min");
                        Some(if first { x[0] } else { x[1] })
                    });
                }
            }
        }
    }
}

fn signs(table: &mut Table, half: Half) {
    let format = half.format;
    for ftz in ["", ".ftz"] {
        if !ftz.is_empty() && half.is_bf16() {
            continue;
        }
        for operation in ["neg", "abs"] {
            form(table, half, &format!("{operation}{ftz}"), 1, move |x| {
                let code = if ftz.is_empty() { x[0] } else { half.flush(x[0]) };
                // Only hardware defines the result for NaN.
                (!format.value(code).is_nan())
                    .then(|| if operation == "neg" { code ^ format.sign() } else { code & !format.sign() })
            });
        }
    }
}
