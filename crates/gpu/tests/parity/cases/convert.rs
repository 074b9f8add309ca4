//! `cvt`: every pair of types with every rounding, saturation and relu. Small source types are tested with every
//! code. Small destination types are tested with every number, every halfway case, and the neighbours of both.

use super::Table;
use crate::case::{Model, RANDOM, exact_on, per_value};
use crate::kernel::{Column, Width};
use crate::model::{Format, Mode, flush};
use crate::random::{Kind, Rng, operands};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ty {
    /// Whether it is signed, and the number of bits.
    Int(bool, u32),
    F16,
    Bf16,
    F32,
    F64,
}

const INTEGERS: [Ty; 8] = [
    Ty::Int(false, 8),
    Ty::Int(true, 8),
    Ty::Int(false, 16),
    Ty::Int(true, 16),
    Ty::Int(false, 32),
    Ty::Int(true, 32),
    Ty::Int(false, 64),
    Ty::Int(true, 64),
];
const FLOATS: [Ty; 4] = [Ty::F16, Ty::Bf16, Ty::F32, Ty::F64];

impl Ty {
    fn name(self) -> String {
        match self {
            Ty::Int(signed, bits) => format!("{}{bits}", if signed { "s" } else { "u" }),
            Ty::F16 => "f16".to_owned(),
            Ty::Bf16 => "bf16".to_owned(),
            Ty::F32 => "f32".to_owned(),
            Ty::F64 => "f64".to_owned(),
        }
    }

    fn width(self) -> Width {
        match self {
            Ty::Int(_, 8) => Width::B8,
            Ty::F16 | Ty::Bf16 | Ty::Int(_, 16) => Width::B16,
            Ty::F32 | Ty::Int(_, 32) => Width::B32,
            Ty::F64 | Ty::Int(..) => Width::B64,
        }
    }

    /// Eight-bit results are stored as a whole register, so that the extension is compared, too.
    fn result(self) -> Width {
        if self.width() == Width::B8 { Width::B32 } else { self.width() }
    }

    fn kind(self) -> Kind {
        match self {
            Ty::Int(..) => Kind::Int,
            Ty::F16 => Kind::F16,
            Ty::Bf16 => Kind::Bf16,
            Ty::F32 => Kind::F32,
            Ty::F64 => Kind::F64,
        }
    }

    fn format(self) -> Option<Format> {
        match self {
            Ty::F16 => Some(Format::F16),
            Ty::Bf16 => Some(Format::Bf16),
            Ty::F32 => Some(Format::F32),
            Ty::F64 | Ty::Int(..) => None,
        }
    }

    fn value(self, bits: u64) -> f64 {
        self.format().map_or(f64::from_bits(bits), |format| format.value(bits))
    }

    /// Fraction and exponent bits; they decide which conversions are exact.
    fn sizes(self) -> (u32, u32) {
        match self {
            Ty::F16 => (10, 5),
            Ty::Bf16 => (7, 8),
            Ty::F32 => (23, 8),
            Ty::F64 | Ty::Int(..) => (52, 11),
        }
    }

    /// Whether every value is also a value of `other`.
    fn fits(self, other: Ty) -> bool {
        let ((man, exp), (other_man, other_exp)) = (self.sizes(), other.sizes());
        man <= other_man && exp <= other_exp
    }
}

fn read_int(signed: bool, bits: u32, value: u64) -> i128 {
    let up = 64 - bits;
    if signed { i128::from((value << up) as i64 >> up) } else { i128::from(value << up >> up) }
}

fn clamp(signed: bool, bits: u32, value: i128) -> i128 {
    let (low, high) = if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
    value.clamp(low, high)
}

pub fn add(table: &mut Table) {
    integers(table);
    for from in FLOATS {
        for to in INTEGERS {
            float_to_int(table, to, from);
            int_to_float(table, from, to);
        }
        for to in FLOATS {
            float_to_float(table, to, from);
        }
    }
    packed_f32(table);
    eight_bits(table);
    tf32(table);
    pack(table);
}

/// Adds a case on the usual operands.
fn form(table: &mut Table, modifiers: &str, to: Ty, from: Ty, model: impl Fn(u64) -> Option<u64> + 'static) {
    let name = format!("cvt{modifiers}.{}.{}", to.name(), from.name());
    table.add(&name.clone(), move || {
        let columns = sources(&name, to, from);
        let body = format!("{name} %d, %a;");
        exact_on(&name, &body, &[to.result()], columns, Some(per_value(Box::new(move |x| model(x[0])))))
    });
}

fn sources(name: &str, to: Ty, from: Ty) -> Vec<Column> {
    let mut columns = operands(&mut Rng::for_name(name), &[(from.kind(), from.width())], RANDOM);
    let values = &mut columns[0].values;
    match (to, from) {
        (Ty::F16 | Ty::Bf16, Ty::F32) => {
            let format = if to == Ty::F16 { Format::F16 } else { Format::Bf16 };
            values.extend(halfway_f32(format));
        }
        (Ty::F16 | Ty::Bf16 | Ty::F32, Ty::F64) => {
            // Near a sample of the destination's numbers and midpoints.
            let format = to.format().unwrap_or(Format::F32);
            let mut rng = Rng::for_name("halfway");
            for _ in 0..4096 {
                let code = rng.below(format.largest());
                let middle = f64::midpoint(format.magnitude(code), format.magnitude(code + 1));
                let sign = rng.u64() & 1 << 63;
                values.extend([middle, middle.next_up(), middle.next_down()].map(|x| x.to_bits() | sign));
            }
        }
        (Ty::Int(..), Ty::F32) => {
            values.extend((0..2000).flat_map(|i| {
                let half = i as f32 * 0.5;
                [half, -half, half.next_up(), -half.next_down()].map(|x| u64::from(x.to_bits()))
            }));
            values.extend(limits().flat_map(|x| {
                let x = x as f32;
                [x.next_down(), x, x.next_up(), -x.next_down(), -x, -x.next_up()]
                    .map(|x| u64::from(x.to_bits()))
            }));
        }
        (Ty::Int(..), Ty::F64) => {
            values.extend((0..2000).flat_map(|i| {
                let half = f64::from(i) * 0.5;
                [half, -half, half.next_up(), -half.next_down()].map(f64::to_bits)
            }));
            values.extend(limits().flat_map(|x| {
                [
                    x - 0.5,
                    x.next_down(),
                    x,
                    x.next_up(),
                    x + 0.5,
                    0.5 - x,
                    -x.next_down(),
                    -x,
                    -x.next_up(),
                    -x - 0.5,
                ]
                .map(f64::to_bits)
            }));
        }
        _ => {}
    }
    columns
}

/// The limits of the integer types.
fn limits() -> impl Iterator<Item = f64> {
    [7.0, 8.0, 15.0, 16.0, 31.0, 32.0, 63.0, 64.0].into_iter().map(f64::exp2)
}

/// Every number of a 16- or 8-bit format and every point halfway to the next, with their f32 neighbours and both
/// signs.
fn halfway_f32(format: Format) -> impl Iterator<Item = u64> {
    (0..=format.largest()).flat_map(move |code| {
        let number = format.magnitude(code);
        let middle = f64::midpoint(number, format.magnitude(code + 1));
        [number, middle].into_iter().flat_map(|x| {
            let x = x as f32;
            [x.next_down(), x, x.next_up()].into_iter().flat_map(|x| [x, -x]).map(|x| u64::from(x.to_bits()))
        })
    })
}

fn integers(table: &mut Table) {
    for to in INTEGERS {
        for from in INTEGERS {
            for sat in [false, true] {
                let (Ty::Int(to_signed, to_bits), Ty::Int(from_signed, from_bits)) = (to, from) else {
                    continue;
                };
                // PTX has `.sat` only where saturation can occur.
                let fits = match (to_signed, from_signed) {
                    (true, false) => to_bits > from_bits,
                    (false, true) => false,
                    _ => to_bits >= from_bits,
                };
                if sat && fits {
                    continue;
                }
                form(table, if sat { ".sat" } else { "" }, to, from, move |x| {
                    let value = read_int(from_signed, from_bits, x);
                    let value = if sat { clamp(to_signed, to_bits, value) } else { value };
                    Some(read_int(to_signed, to_bits, value as u64) as u64)
                });
            }
        }
    }
}

fn integral(x: f64, mode: Mode) -> f64 {
    match mode {
        Mode::Nearest => x.round_ties_even(),
        Mode::NearestAway => x.round(),
        Mode::Zero => x.trunc(),
        Mode::Down => x.floor(),
        Mode::Up => x.ceil(),
    }
}

fn float_to_int(table: &mut Table, to: Ty, from: Ty) {
    let Ty::Int(signed, bits) = to else { return };
    if from == Ty::Bf16 && bits == 8 {
        return;
    }
    for mode in Mode::ALL {
        for ftz in [false, true] {
            if ftz && from != Ty::F32 {
                continue;
            }
            let modifiers = format!(".{}i{}", mode.suffix(), if ftz { ".ftz" } else { "" });
            form(table, &modifiers, to, from, move |x| {
                let value = from.value(if ftz { flush(x) } else { x });
                // The result for NaN depends on the widths; only hardware defines it.
                (!value.is_nan()).then(|| clamp(signed, bits, integral(value, mode) as i128) as u64)
            });
        }
    }
}

fn int_to_float(table: &mut Table, to: Ty, from: Ty) {
    let Ty::Int(signed, bits) = from else { return };
    if to == Ty::Bf16 && bits == 8 {
        return;
    }
    for mode in Mode::ALL {
        for sat in [false, true] {
            if sat && to == Ty::Bf16 {
                continue;
            }
            let modifiers = format!(".{}{}", mode.suffix(), if sat { ".sat" } else { "" });
            form(table, &modifiers, to, from, move |x| {
                let value = read_int(signed, bits, x);
                let value = if sat { value.clamp(0, 1) } else { value };
                if value == 0 {
                    return Some(0);
                }
                let high = value as f64;
                let low = (value - high as i128) as f64;
                match to.format() {
                    Some(format) => Some(format.round_sum(high, low, mode)),
                    None if low == 0.0 || mode == Mode::Nearest => Some(high.to_bits()),
                    None => Some(
                        match mode {
                            Mode::Up if low > 0.0 => high.next_up(),
                            Mode::Down if low < 0.0 => high.next_down(),
                            Mode::Zero if low * high.signum() < 0.0 && high > 0.0 => high.next_down(),
                            Mode::Zero if low * high.signum() < 0.0 => high.next_up(),
                            _ => high,
                        }
                        .to_bits(),
                    ),
                }
            });
        }
    }
}

/// Rounds a number to a type. NaN has no model, because only hardware defines its payload.
fn to_float(to: Ty, value: f64, mode: Mode) -> Option<u64> {
    if value.is_nan() {
        return None;
    }
    let Some(format) = to.format() else { return Some(value.to_bits()) };
    let sign = if value.is_sign_negative() { format.sign() } else { 0 };
    Some(if value == 0.0 {
        sign
    } else if value.is_infinite() {
        sign | format.infinity()
    } else {
        format.round_sum(value, 0.0, mode)
    })
}

/// Clamps to [0, 1]; NaN and -0 become +0.
fn saturated(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) + 0.0 }
}

fn float_to_float(table: &mut Table, to: Ty, from: Ty) {
    let exact = from.fits(to);
    let flushes = |ftz: bool| !ftz || from == Ty::F32 || to == Ty::F32;
    let bf16 = to == Ty::Bf16 || from == Ty::Bf16;
    for ftz in [false, true] {
        if !flushes(ftz) || ftz && bf16 {
            continue;
        }
        let flushed = if ftz { ".ftz" } else { "" };
        let read = move |x: u64| from.value(if ftz && from == Ty::F32 { flush(x) } else { x });
        let write =
            move |bits: Option<u64>| bits.map(|bits| if ftz && to == Ty::F32 { flush(bits) } else { bits });
        for sat in [false, true] {
            if sat && bf16 {
                continue;
            }
            let saturates = if sat { ".sat" } else { "" };
            let clamped = move |x: f64| if sat { saturated(x) } else { x };
            if to == from {
                for mode in Mode::ALL {
                    if to == Ty::Bf16 {
                        continue;
                    }
                    let modifiers = format!(".{}i{flushed}{saturates}", mode.suffix());
                    form(table, &modifiers, to, from, move |x| {
                        let value = read(x);
                        let whole = integral(value, mode).copysign(value);
                        write(to_float(to, clamped(whole), Mode::Nearest))
                    });
                }
            }
            if exact && !(to == from && to == Ty::Bf16) {
                form(table, &format!("{flushed}{saturates}"), to, from, move |x| {
                    write(to_float(to, clamped(read(x)), Mode::Nearest))
                });
            }
            if !exact {
                for mode in Mode::ALL {
                    let modifiers = format!(".{}{flushed}{saturates}", mode.suffix());
                    form(table, &modifiers, to, from, move |x| {
                        // f16 results of flushed sources: hardware does not flush. Only .rm and .rp show it.
                        if ftz && to == Ty::F16 && flush(x) != x {
                            return None;
                        }
                        // Saturation follows rounding, and rounding cannot cross 0 or 1.
                        write(to_float(to, clamped(read(x)), mode))
                    });
                }
            }
        }
        if from == Ty::F32 && matches!(to, Ty::F16 | Ty::Bf16) && !ftz {
            for mode in [Mode::Nearest, Mode::Zero] {
                for (words, relu, satfinite) in LIMITED {
                    let modifiers = format!(".{}{words}", mode.suffix());
                    form(table, &modifiers, to, from, move |x| limited(to, mode, relu, satfinite, x));
                }
            }
        }
    }
}

/// Modifiers that limit a result, and whether they contain `.relu` and `.satfinite`.
const LIMITED: [(&str, bool, bool); 3] =
    [(".relu", true, false), (".satfinite", false, true), (".relu.satfinite", true, true)];

/// Converts an f32 to f16 or bf16; on request negative values become zero and large ones the largest number.
fn limited(to: Ty, mode: Mode, relu: bool, satfinite: bool, x: u64) -> Option<u64> {
    let format = to.format()?;
    let value = Format::F32.value(x);
    if value.is_nan() {
        return Some(format.nan());
    }
    if relu && value.is_sign_negative() {
        return Some(0);
    }
    let code = to_float(to, value, mode)?;
    let magnitude = code & !format.sign();
    Some(if satfinite && magnitude > format.largest() {
        format.largest() | code & format.sign()
    } else {
        code
    })
}

/// Converts two f32 to a pair; the first is the upper half.
fn packed_f32(table: &mut Table) {
    for (name, to) in [("f16x2", Ty::F16), ("bf16x2", Ty::Bf16)] {
        for mode in [Mode::Nearest, Mode::Zero] {
            for (words, relu, satfinite) in [("", false, false)].into_iter().chain(LIMITED) {
                let name = format!("cvt.{}{words}.{name}.f32", mode.suffix());
                table.add(&name.clone(), move || {
                    let format = to.format().unwrap_or(Format::F16);
                    let columns = paired(&name, halfway_f32(format).collect());
                    let one = move |x: u64| limited(to, mode, relu, satfinite, x);
                    let model = move |x: &[u64]| Some(one(x[0])? << 16 | one(x[1])?);
                    exact_on(
                        &name,
                        &format!("{name} %d, %a, %b;"),
                        &[Width::B32],
                        columns,
                        Some(per_value(Box::new(model))),
                    )
                });
            }
        }
    }
}

/// The given operands paired with the same ones in another order, then random pairs.
fn paired(name: &str, first: Vec<u64>) -> Vec<Column> {
    let mut rng = Rng::for_name(name);
    let mut second = first.clone();
    second.rotate_left(first.len() / 3);
    let mut columns = vec![Column::new(Width::B32, first), Column::new(Width::B32, second)];
    for (column, more) in columns.iter_mut().zip(operands(&mut rng, &[(Kind::F32, Width::B32); 2], RANDOM)) {
        column.values.extend(more.values);
    }
    columns
}

fn eight_bit_code(format: Format, value: f64, relu: bool) -> u64 {
    if value.is_nan() {
        return format.nan();
    }
    let sign = if value.is_sign_negative() { format.sign() } else { 0 };
    if relu && sign != 0 {
        return 0;
    }
    if value == 0.0 {
        return sign;
    }
    let code = if value.is_infinite() {
        format.largest()
    } else {
        format.round_sum(value, 0.0, Mode::Nearest) & (format.sign() - 1)
    };
    code.min(format.largest()) | sign
}

fn eight_bits(table: &mut Table) {
    for (name, format) in [("e4m3x2", Format::E4m3), ("e5m2x2", Format::E5m2)] {
        for relu in [false, true] {
            let suffix = if relu { ".relu" } else { "" };
            // From two f32: every number and halfway case of the format.
            let case = format!("cvt.rn.satfinite{suffix}.{name}.f32");
            table.add(&case.clone(), move || {
                let columns = paired(&case, halfway_f32(format).collect());
                let one = move |x: u64| eight_bit_code(format, Format::F32.value(x), relu);
                let model = move |x: &[u64]| Some(one(x[0]) << 8 | one(x[1]));
                exact_on(
                    &case,
                    &format!("{case} %d, %a, %b;"),
                    &[Width::B16],
                    columns,
                    Some(per_value(Box::new(model))),
                )
            });
            // From a pair of f16: every code, which includes every halfway case.
            let case = format!("cvt.rn.satfinite{suffix}.{name}.f16x2");
            table.add(&case.clone(), move || {
                let all =
                    (0..=0xffff_u64).map(|code| (code.wrapping_mul(40503) & 0xffff) << 16 | code).collect();
                let one = move |x: u64| eight_bit_code(format, Format::F16.value(x & 0xffff), relu);
                let model = move |x: &[u64]| Some(one(x[0] >> 16) << 8 | one(x[0]));
                let columns = vec![Column::new(Width::B32, all)];
                exact_on(
                    &case,
                    &format!("{case} %d, %a;"),
                    &[Width::B16],
                    columns,
                    Some(per_value(Box::new(model))),
                )
            });
            // To a pair of f16: every pair of codes.
            let case = format!("cvt.rn{suffix}.f16x2.{name}");
            table.add(&case.clone(), move || {
                let one = move |code: u64| {
                    let value = format.value(code & 0xff);
                    if value.is_nan() {
                        Format::F16.nan()
                    } else if relu && code & 0x80 != 0 {
                        0
                    } else {
                        to_float(Ty::F16, value, Mode::Nearest).unwrap_or(Format::F16.nan())
                    }
                };
                let model = move |x: &[u64]| Some(one(x[0] >> 8) << 16 | one(x[0]));
                let columns = vec![Column::new(Width::B16, (0..=0xffff).collect())];
                exact_on(
                    &case,
                    &format!("{case} %d, %a;"),
                    &[Width::B32],
                    columns,
                    Some(per_value(Box::new(model))),
                )
            });
        }
    }
}

fn tf32(table: &mut Table) {
    let forms = [
        ("rna", Mode::NearestAway, false),
        ("rn", Mode::Nearest, false),
        ("rz", Mode::Zero, false),
        ("rn.relu", Mode::Nearest, true),
        ("rz.relu", Mode::Zero, true),
        ("rna.satfinite", Mode::NearestAway, false),
    ];
    for (modifiers, mode, relu) in forms {
        let name = format!("cvt.{modifiers}.tf32.f32");
        table.add(&name.clone(), move || {
            let mut columns = operands(&mut Rng::for_name(&name), &[(Kind::F32, Width::B32)], RANDOM);
            let mut rng = Rng::for_name("tf32");
            columns[0].values.extend((0..60_000).map(|_| {
                let cut = rng.u64() & 0xffff_e000;
                cut + [0, 0xfff, 0x1000, 0x1001, 0x1fff][rng.below(5) as usize]
            }));
            let model: Model = per_value(Box::new(move |x: &[u64]| {
                let value = Format::F32.value(x[0]);
                if value.is_nan() {
                    return None;
                }
                let sign = x[0] & 1 << 31;
                if relu && sign != 0 {
                    return Some(0);
                }
                let code = if value == 0.0 {
                    0
                } else if value.is_infinite() {
                    Format::Tf32.infinity()
                } else {
                    Format::Tf32.round_sum(value.abs(), 0.0, mode)
                };
                let code =
                    if modifiers.ends_with("satfinite") { code.min(Format::Tf32.largest()) } else { code };
                Some(code << 13 | sign)
            }));
            exact_on(&name, &format!("{name} %d, %a;"), &[Width::B32], columns, Some(model))
        });
    }
}

/// `cvt.pack`: packs two saturated integers into a register.
fn pack(table: &mut Table) {
    for (ty, signed, bits) in [("u16", false, 16), ("s16", true, 16), ("u8", false, 8), ("s8", true, 8)] {
        let third = if bits == 8 { ".b32" } else { "" };
        let name = format!("cvt.pack.sat.{ty}.s32{third}");
        table.add(&name.clone(), move || {
            let sources = if bits == 8 { 3 } else { 2 };
            let columns =
                operands(&mut Rng::for_name(&name), &vec![(Kind::Int, Width::B32); sources], RANDOM);
            let body = format!("{name} %d, {};", ["%a", "%b", "%c"][..sources].join(", "));
            let model = move |x: &[u64]| {
                let part =
                    |x: u64| clamp(signed, bits, i128::from(x as u32 as i32)) as u64 & ((1 << bits) - 1);
                let rest = x.get(2).map_or(0, |c| c << (2 * bits));
                Some(rest | part(x[0]) << bits | part(x[1]))
            };
            exact_on(&name, &body, &[Width::B32], columns, Some(per_value(Box::new(model))))
        });
    }
}
