//! Integer arithmetic. The models compute in 128 bits and truncate.

use super::Table;
use crate::case::{RANDOM, exact, exact_on};
use crate::kernel::Width;
use crate::random::{Kind, Rng, operands};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Int {
    signed: bool,
    width: Width,
}

impl Int {
    fn all() -> impl Iterator<Item = Int> {
        [Width::B16, Width::B32, Width::B64]
            .into_iter()
            .flat_map(|width| [false, true].map(|signed| Int { signed, width }))
    }

    fn name(self) -> String {
        format!("{}{}", if self.signed { "s" } else { "u" }, self.width.bits())
    }

    fn read(self, bits: u64) -> i128 {
        let bits = bits & self.width.mask();
        let up = 64 - self.width.bits();
        if self.signed { i128::from((bits << up) as i64 >> up) } else { i128::from(bits) }
    }

    fn clamp(self, value: i128) -> i128 {
        let bits = self.width.bits();
        let (low, high) =
            if self.signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        value.clamp(low, high)
    }
}

type Operation = fn(Int, &[i128]) -> i128;

/// Adds an instruction whose operands and result have the same type.
fn same(table: &mut Table, mnemonic: &str, int: Int, sources: usize, operation: Operation) {
    let name = format!("{mnemonic}.{}", int.name());
    table.add(&name.clone(), move || {
        let model = move |x: &[u64]| {
            let x: Vec<i128> = x.iter().map(|&bits| int.read(bits)).collect();
            Some(operation(int, &x) as u64)
        };
        exact(&name, int.width, &vec![(Kind::Int, int.width); sources], Some(Box::new(model)))
    });
}

fn high(int: Int, x: &[i128]) -> i128 {
    // Products of unsigned 64-bit numbers do not fit i128.
    if int.signed {
        (x[0] * x[1]) >> int.width.bits()
    } else {
        ((x[0] as u128 * x[1] as u128) >> int.width.bits()) as i128
    }
}

pub fn add(table: &mut Table) {
    for int in Int::all() {
        let wide = int.width != Width::B16;
        same(table, "add", int, 2, |_, x| x[0] + x[1]);
        same(table, "sub", int, 2, |_, x| x[0] - x[1]);
        same(table, "mul.lo", int, 2, |_, x| x[0].wrapping_mul(x[1]));
        same(table, "mul.hi", int, 2, high);
        same(table, "mad.lo", int, 3, |_, x| x[0].wrapping_mul(x[1]).wrapping_add(x[2]));
        same(table, "mad.hi", int, 3, |int, x| high(int, x) + x[2]);
        same(table, "min", int, 2, |_, x| x[0].min(x[1]));
        same(table, "max", int, 2, |_, x| x[0].max(x[1]));
        same(table, "sad", int, 3, |_, x| x[2] + (x[0] - x[1]).abs());
        if int.signed {
            same(table, "abs", int, 1, |_, x| x[0].abs());
            same(table, "neg", int, 1, |_, x| -x[0]);
        }
        division(table, int);
        if wide {
            extended(table, int);
        }
        if int.width != Width::B64 {
            widening(table, int);
        }
    }
    let s32 = Int { signed: true, width: Width::B32 };
    same(table, "add.sat", s32, 2, |int, x| int.clamp(x[0] + x[1]));
    same(table, "sub.sat", s32, 2, |int, x| int.clamp(x[0] - x[1]));
    same(table, "mad.hi.sat", s32, 3, |int, x| int.clamp(high(int, x) + x[2]));
    same(table, "min.relu", s32, 2, |_, x| x[0].min(x[1]).max(0));
    same(table, "max.relu", s32, 2, |_, x| x[0].max(x[1]).max(0));
    packed(table);
    multiply24(table);
    dot_products(table);
    video(table);
}

/// The manual does not define the result for a zero divisor; only hardware does.
fn division(table: &mut Table, int: Int) {
    for mnemonic in ["div", "rem"] {
        let name = format!("{mnemonic}.{}", int.name());
        table.add(&name.clone(), move || {
            let model = move |x: &[u64]| {
                let (a, b) = (int.read(x[0]), int.read(x[1]));
                (b != 0).then(|| (if mnemonic == "div" { a / b } else { a % b }) as u64)
            };
            exact(&name, int.width, &[(Kind::Int, int.width); 2], Some(Box::new(model)))
        });
    }
}

fn widening(table: &mut Table, int: Int) {
    let double = if int.width == Width::B16 { Width::B32 } else { Width::B64 };
    let name = format!("mul.wide.{}", int.name());
    table.add(&name.clone(), move || {
        let model = move |x: &[u64]| Some((int.read(x[0]) * int.read(x[1])) as u64);
        exact(&name, double, &[(Kind::Int, int.width); 2], Some(Box::new(model)))
    });
    let name = format!("mad.wide.{}", int.name());
    table.add(&name.clone(), move || {
        let model =
            move |x: &[u64]| Some((int.read(x[0]) * int.read(x[1])).wrapping_add(i128::from(x[2])) as u64);
        let sources = [(Kind::Int, int.width), (Kind::Int, int.width), (Kind::Int, double)];
        exact(&name, double, &sources, Some(Box::new(model)))
    });
}

/// Carry chains: the sum, and the carry, which `addc` on zeros makes visible.
fn extended(table: &mut Table, int: Int) {
    let ty = int.name();
    let width = int.width;
    let chain: [(&str, usize, fn(Int, &[i128]) -> (i128, i128)); 4] = [
        ("add.cc", 2, |_, x| (x[0] + x[1], 1)),
        ("sub.cc", 2, |_, x| (x[0] - x[1], -1)),
        ("mad.lo.cc", 3, |int, x| ((x[0].wrapping_mul(x[1]) & i128::from(int.width.mask())) + x[2], 1)),
        ("mad.hi.cc", 3, |int, x| ((high(int, x) & i128::from(int.width.mask())) + x[2], 1)),
    ];
    for (mnemonic, sources, operation) in chain {
        let name = format!("{mnemonic}.{ty} + carry");
        let (mnemonic, ty) = (mnemonic.to_owned(), ty.clone());
        table.add(&name.clone(), move || {
            let names = ["%a", "%b", "%c"][..sources].join(", ");
            let carry = if mnemonic.starts_with("sub") { "subc" } else { "addc" };
            let body = format!("{mnemonic}.{ty} %d, {names};\n{carry}.{ty} %f, 0, 0;");
            let columns = operands(&mut Rng::for_name(&name), &vec![(Kind::Int, width); sources], RANDOM);
            let unsigned = Int { signed: false, width };
            let model = move |columns: &[crate::kernel::Column], index: usize| {
                let raw: Vec<u64> = columns.iter().map(|column| column.values[index]).collect();
                // The carry is that of the unsigned addition; only mad.hi uses signs.
                let mut x: Vec<i128> = raw.iter().map(|&bits| unsigned.read(bits)).collect();
                if mnemonic == "mad.hi.cc" {
                    (x[0], x[1]) = (int.read(raw[0]), int.read(raw[1]));
                }
                let of = if mnemonic == "mad.hi.cc" { int } else { unsigned };
                let (value, unit) = operation(of, &x);
                let carry = if value < 0 || value >> width.bits() != 0 { unit } else { 0 };
                Some(vec![value as u64, carry as u64])
            };
            exact_on(&name, &body, &[width, width], columns, Some(Box::new(model)))
        });
    }
}

fn packed(table: &mut Table) {
    let forms: [(&str, bool, fn(i128, i128) -> i128); 7] = [
        ("add.u16x2", false, |a, b| a + b),
        ("add.s16x2", true, |a, b| a + b),
        ("min.u16x2", false, i128::min),
        ("max.u16x2", false, i128::max),
        ("min.s16x2", true, i128::min),
        ("max.s16x2", true, i128::max),
        ("max.s16x2.relu", true, |a, b| a.max(b).max(0)),
    ];
    for (name, signed, operation) in forms {
        // The modifier comes before the type.
        let name = if let Some(plain) = name.strip_suffix(".relu") {
            plain.replace("max.", "max.relu.")
        } else {
            name.to_owned()
        };
        table.add(&name.clone(), move || {
            let half = Int { signed, width: Width::B16 };
            let model = move |x: &[u64]| {
                let part = |shift: u32| {
                    operation(half.read(x[0] >> shift), half.read(x[1] >> shift)) as u64 & 0xffff
                };
                Some(part(16) << 16 | part(0))
            };
            exact(&name, Width::B32, &[(Kind::Int, Width::B32); 2], Some(Box::new(model)))
        });
    }
}

/// Products of the low 24 bits of 32-bit operands.
fn multiply24(table: &mut Table) {
    for signed in [false, true] {
        let read = move |bits: u64| {
            let bits = bits as u32;
            if signed { i128::from((bits << 8) as i32 >> 8) } else { i128::from(bits << 8 >> 8) }
        };
        let ty = if signed { "s32" } else { "u32" };
        for (part, shift) in [("lo", 0), ("hi", 16)] {
            let name = format!("mul24.{part}.{ty}");
            table.add(&name.clone(), move || {
                let model = move |x: &[u64]| Some(((read(x[0]) * read(x[1])) >> shift) as u64);
                exact(&name, Width::B32, &[(Kind::Int, Width::B32); 2], Some(Box::new(model)))
            });
            let name = format!("mad24.{part}.{ty}");
            table.add(&name.clone(), move || {
                let model =
                    move |x: &[u64]| Some((((read(x[0]) * read(x[1])) >> shift) as u64).wrapping_add(x[2]));
                exact(&name, Width::B32, &[(Kind::Int, Width::B32); 3], Some(Box::new(model)))
            });
        }
    }
    table.add("mad24.hi.sat.s32", || {
        exact("mad24.hi.sat.s32", Width::B32, &[(Kind::Int, Width::B32); 3], None)
    });
}

fn dot_products(table: &mut Table) {
    fn part(bits: u64, signed: bool, width: u32, index: u32) -> i64 {
        let shifted = (bits << (64 - width * (index + 1))) as i64;
        if signed { shifted >> (64 - width) } else { (shifted as u64 >> (64 - width)) as i64 }
    }
    for (ta, sa) in [("u32", false), ("s32", true)] {
        for (tb, sb) in [("u32", false), ("s32", true)] {
            let sources = [(Kind::Int, Width::B32); 3];
            let name = format!("dp4a.{ta}.{tb}");
            table.add(&name.clone(), move || {
                let model = move |x: &[u64]| {
                    let sum: i64 = (0..4).map(|i| part(x[0], sa, 8, i) * part(x[1], sb, 8, i)).sum();
                    Some((sum as u64).wrapping_add(x[2]))
                };
                exact(&name, Width::B32, &sources, Some(Box::new(model)))
            });
            for (half, first) in [("lo", 0), ("hi", 2)] {
                let name = format!("dp2a.{half}.{ta}.{tb}");
                table.add(&name.clone(), move || {
                    let model = move |x: &[u64]| {
                        let sum: i64 =
                            (0..2).map(|i| part(x[0], sa, 16, i) * part(x[1], sb, 8, first + i)).sum();
                        Some((sum as u64).wrapping_add(x[2]))
                    };
                    exact(&name, Width::B32, &sources, Some(Box::new(model)))
                });
            }
        }
    }
}

/// Video instructions. The tests of the virtual GPU have the models of their arithmetic.
fn video(table: &mut Table) {
    let mut names = Vec::new();
    for ty in ["u32", "s32"] {
        for (parts, forms) in [("4", ["", ".sat", ".add"]), ("2", ["", ".sat", ".add"])] {
            for op in ["vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"] {
                names.extend(forms.map(|form| (format!("{op}{parts}.{ty}.{ty}.{ty}{form}"), 3)));
            }
            for cmp in ["eq", "ne", "lt", "le", "gt", "ge"] {
                names.push((format!("vset{parts}.{ty}.{ty}.{cmp}"), 3));
            }
        }
        for op in ["vadd", "vsub", "vabsdiff", "vmin", "vmax"] {
            names.extend(
                [("", 2), (".sat", 2), (".add", 3), (".min", 3), (".max", 3)]
                    .map(|(form, sources)| (format!("{op}.{ty}.{ty}.{ty}{form}"), sources)),
            );
        }
        for op in ["vshl", "vshr"] {
            names.extend(
                [".clamp", ".wrap", ".sat.clamp"].map(|form| (format!("{op}.{ty}.{ty}.u32{form}"), 2)),
            );
        }
    }
    for (name, sources) in names {
        table.add(&name.clone(), move || {
            exact(&name, Width::B32, &vec![(Kind::Int, Width::B32); sources], None)
        });
    }
}
