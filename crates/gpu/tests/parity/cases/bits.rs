//! Logic, shifts, bit fields, bytes, selection and integer comparison.

use super::Table;
use crate::case::{RANDOM, exact, exact_on, per_value};
use crate::kernel::Width;
use crate::random::{Kind, Rng, operands};

type Operation = fn(&[u64], Width) -> u64;

fn sign_extend(bits: u64, width: Width) -> i64 {
    let up = 64 - width.bits();
    (bits << up) as i64 >> up
}

fn shifted_left(x: &[u64], width: Width) -> u64 {
    if x[1] >= u64::from(width.bits()) { 0 } else { x[0] << x[1] }
}

fn shifted_right(x: &[u64], width: Width) -> u64 {
    if x[1] >= u64::from(width.bits()) { 0 } else { x[0] >> x[1] }
}

fn shifted_right_signed(x: &[u64], width: Width) -> u64 {
    (sign_extend(x[0], width) >> x[1].min(63)) as u64
}

/// Position and length are at most 255 each; a field that reaches past the top bit is cut.
fn field(x: u64, position: u64, length: u64, width: Width) -> (u64, u64) {
    let (position, length) = (position & 0xff, length & 0xff);
    let bits = u64::from(width.bits());
    let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    (if position >= bits { 0 } else { x >> position & mask }, mask)
}

fn extract(x: &[u64], width: Width) -> u64 {
    field(x[0], x[1], x[2], width).0
}

fn extract_signed(x: &[u64], width: Width) -> u64 {
    let (position, length) = (x[1] & 0xff, x[2] & 0xff);
    let bits = u64::from(width.bits());
    if length == 0 {
        return 0;
    }
    let sign = x[0] >> (position + length - 1).min(bits - 1) & 1;
    let (value, mask) = field(x[0], position, length, width);
    // Bits above the top of the register and above the field are copies of the sign.
    let known = if position >= bits { 0 } else { bits - position };
    let known = if known >= 64 { u64::MAX } else { (1 << known) - 1 };
    if sign == 1 { value | !(mask & known) } else { value }
}

fn insert(x: &[u64], width: Width) -> u64 {
    let (position, length) = (x[2] & 0xff, x[3] & 0xff);
    if position >= u64::from(width.bits()) {
        return x[1];
    }
    let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    x[1] & !(mask << position) | (x[0] & mask) << position
}

pub fn add(table: &mut Table) {
    logic(table);
    shifts(table);
    fields(table);
    counts(table);
    bytes(table);
    selection(table);
    comparisons(table);
}

fn form(table: &mut Table, name: &str, result: Width, sources: &[(Kind, Width)], operation: Operation) {
    let name = name.to_owned();
    let width = sources[0].1;
    let sources = sources.to_vec();
    table.add(&name.clone(), move || {
        exact(&name, result, &sources, Some(Box::new(move |x: &[u64]| Some(operation(x, width)))))
    });
}

fn logic(table: &mut Table) {
    for width in [Width::B16, Width::B32, Width::B64] {
        let bits = width.bits();
        let pair = [(Kind::Int, width); 2];
        form(table, &format!("and.b{bits}"), width, &pair, |x, _| x[0] & x[1]);
        form(table, &format!("or.b{bits}"), width, &pair, |x, _| x[0] | x[1]);
        form(table, &format!("xor.b{bits}"), width, &pair, |x, _| x[0] ^ x[1]);
        form(table, &format!("not.b{bits}"), width, &pair[..1], |x, _| !x[0]);
        form(table, &format!("cnot.b{bits}"), width, &pair[..1], |x, _| u64::from(x[0] == 0));
    }
    for truth in [0x80, 0xfe, 0x96, 0xe8, 0xca, 0x1b, 0x3c] {
        let name = format!("lop3.b32 {truth:#04x}");
        table.add(&name.clone(), move || {
            let columns = operands(&mut Rng::for_name(&name), &[(Kind::Int, Width::B32); 3], RANDOM);
            let model = move |x: &[u64]| {
                let bit = |i: u32| {
                    let row = (x[0] >> i & 1) << 2 | (x[1] >> i & 1) << 1 | x[2] >> i & 1;
                    u64::from(truth >> row & 1u32) << i
                };
                Some((0..32).map(bit).sum())
            };
            let body = format!("lop3.b32 %d, %a, %b, %c, {truth};");
            exact_on(&name, &body, &[Width::B32], columns, Some(per_value(Box::new(model))))
        });
    }
}

fn shifts(table: &mut Table) {
    for width in [Width::B16, Width::B32, Width::B64] {
        let bits = width.bits();
        let sources = [(Kind::Int, width), (Kind::Small, Width::B32)];
        form(table, &format!("shl.b{bits}"), width, &sources, shifted_left);
        form(table, &format!("shr.u{bits}"), width, &sources, shifted_right);
        form(table, &format!("shr.s{bits}"), width, &sources, shifted_right_signed);
    }
    let sources = [(Kind::Int, Width::B32), (Kind::Int, Width::B32), (Kind::Small, Width::B32)];
    form(table, "shf.l.clamp.b32", Width::B32, &sources, |x, _| (x[1] << 32 | x[0]) << x[2].min(32) >> 32);
    form(table, "shf.l.wrap.b32", Width::B32, &sources, |x, _| (x[1] << 32 | x[0]) << (x[2] & 31) >> 32);
    form(table, "shf.r.clamp.b32", Width::B32, &sources, |x, _| (x[1] << 32 | x[0]) >> x[2].min(32));
    form(table, "shf.r.wrap.b32", Width::B32, &sources, |x, _| (x[1] << 32 | x[0]) >> (x[2] & 31));
}

fn fields(table: &mut Table) {
    for width in [Width::B32, Width::B64] {
        let bits = width.bits();
        let small = (Kind::Small, Width::B32);
        let sources = [(Kind::Int, width), small, small];
        let two = [(Kind::Int, width), (Kind::Int, width), small, small];
        let forms = [
            (format!("bfe.u{bits}"), sources.to_vec(), extract as Operation),
            (format!("bfe.s{bits}"), sources.to_vec(), extract_signed),
            (format!("bfi.b{bits}"), two.to_vec(), insert),
        ];
        for (name, sources, operation) in forms {
            table.add(&name.clone(), move || {
                // The manual says that only the low bytes count; 64-bit hardware uses all bits of a position or
                // length.
                let numbers = |x: &[u64]| [x[x.len() - 2], x[x.len() - 1]];
                let open =
                    move |x: &[u64]| width == Width::B64 && numbers(x).iter().any(|&number| number > 255);
                let model = move |x: &[u64]| (!open(x)).then(|| operation(x, width));
                exact(&name, width, &sources, Some(Box::new(model)))
            });
        }
    }
}

fn counts(table: &mut Table) {
    for width in [Width::B32, Width::B64] {
        let bits = width.bits();
        let one = [(Kind::Int, width)];
        form(table, &format!("popc.b{bits}"), Width::B32, &one, |x, _| u64::from(x[0].count_ones()));
        form(table, &format!("clz.b{bits}"), Width::B32, &one, |x, width| {
            u64::from(x[0].leading_zeros()) - (64 - u64::from(width.bits()))
        });
        form(table, &format!("brev.b{bits}"), width, &one, |x, width| {
            x[0].reverse_bits() >> (64 - width.bits())
        });
        for signed in [false, true] {
            let ty = if signed { "s" } else { "u" };
            for shift in [false, true] {
                let modifier = if shift { ".shiftamt" } else { "" };
                let name = format!("bfind{modifier}.{ty}{bits}");
                table.add(&name.clone(), move || {
                    let model = move |x: &[u64]| {
                        // The top bit that differs from the sign.
                        let value =
                            if signed && sign_extend(x[0], width) < 0 { !x[0] & width.mask() } else { x[0] };
                        Some(match (value, shift) {
                            (0, _) => 0xffff_ffff,
                            (_, false) => u64::from(value.ilog2()),
                            (_, true) => u64::from(bits - 1 - value.ilog2()),
                        })
                    };
                    exact(&name, Width::B32, &one, Some(Box::new(model)))
                });
            }
        }
    }
    table.add("fns.b32", || {
        let mut columns = operands(
            &mut Rng::for_name("fns.b32"),
            &[(Kind::Int, Width::B32), (Kind::Small, Width::B32), (Kind::Int, Width::B32)],
            RANDOM,
        );
        // A base past bit 31 is undefined; offsets beyond ±32 find nothing.
        columns[1].values.iter_mut().for_each(|base| *base &= 31);
        columns[2].values.iter_mut().for_each(|offset| *offset = (*offset as i32 % 40) as u32 as u64);
        let model = |x: &[u64]| {
            let (mask, base, offset) = (x[0] as u32, x[1] as i32, x[2] as u32 as i32);
            let set = |position: &i32| mask >> position & 1 == 1;
            let found = match offset {
                0 => Some(base).filter(set),
                1.. => (base..32).filter(set).nth(offset as usize - 1),
                _ => (0..=base).rev().filter(set).nth(-offset as usize - 1),
            };
            Some(found.map_or(0xffff_ffff, |position| position as u64))
        };
        exact_on(
            "fns.b32",
            "fns.b32 %d, %a, %b, %c;",
            &[Width::B32],
            columns,
            Some(per_value(Box::new(model))),
        )
    });
}

fn bytes(table: &mut Table) {
    let modes: [(&str, fn(u64) -> [u64; 4]); 7] = [
        ("", |_| [0; 4]),
        (".f4e", |n| std::array::from_fn(|i| n + i as u64)),
        (".b4e", |n| std::array::from_fn(|i| n.wrapping_sub(i as u64) & 7)),
        (".rc8", |n| [n; 4]),
        (".ecl", |n| std::array::from_fn(|i| n.max(i as u64))),
        (".ecr", |n| std::array::from_fn(|i| n.min(i as u64))),
        (".rc16", |n| std::array::from_fn(|i| (n & 1) * 2 + (i as u64 & 1))),
    ];
    for (mode, picks) in modes {
        let name = format!("prmt.b32{mode}");
        table.add(&name.clone(), move || {
            let sources = [(Kind::Int, Width::B32), (Kind::Int, Width::B32), (Kind::Int, Width::B32)];
            let model = move |x: &[u64]| {
                let all = x[1] << 32 | x[0];
                let byte = |pick: u64| {
                    let byte = all >> (8 * (pick & 7)) & 0xff;
                    // Selectors of the default mode can replicate the sign eight times.
                    if pick & 8 == 0 { byte } else { (byte >> 7) * 0xff }
                };
                let picks = if mode.is_empty() {
                    std::array::from_fn(|i| x[2] >> (4 * i) & 0xf)
                } else {
                    picks(x[2] & 3).map(|pick| pick & 7)
                };
                Some(picks.iter().enumerate().map(|(i, &pick)| byte(pick) << (8 * i)).sum())
            };
            exact(&name, Width::B32, &sources, Some(Box::new(model)))
        });
    }
}

fn selection(table: &mut Table) {
    for width in [Width::B16, Width::B32, Width::B64] {
        let bits = width.bits();
        let name = format!("slct.b{bits}.s32");
        let pair = [(Kind::Int, width), (Kind::Int, width)];
        form(table, &name, width, &[pair[0], pair[1], (Kind::Int, Width::B32)], |x, _| {
            if (x[2] as i32) < 0 { x[1] } else { x[0] }
        });
        let name = format!("slct.b{bits}.f32");
        form(table, &name, width, &[pair[0], pair[1], (Kind::F32, Width::B32)], |x, _| {
            if f32::from_bits(x[2] as u32) >= 0.0 { x[0] } else { x[1] }
        });
        let name = format!("selp.b{bits}");
        table.add(&name.clone(), move || {
            let sources = [pair[0], pair[1], (Kind::Small, Width::B32)];
            let columns = operands(&mut Rng::for_name(&name), &sources, RANDOM);
            let body = format!("setp.gt.u32 %p, %c, 30;\nselp.b{bits} %d, %a, %b, %p;");
            let model = |x: &[u64]| Some(if x[2] > 30 { x[0] } else { x[1] });
            exact_on(&name, &body, &[width], columns, Some(per_value(Box::new(model))))
        });
    }
}

fn comparisons(table: &mut Table) {
    let operators: [(&str, fn(i128, i128) -> bool); 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    for width in [Width::B16, Width::B32, Width::B64] {
        for signed in [false, true] {
            for (operator, holds) in operators {
                let ty = format!("{}{}", if signed { "s" } else { "u" }, width.bits());
                let name = format!("setp.{operator}.{ty}");
                table.add(&name.clone(), move || {
                    let mut columns = operands(&mut Rng::for_name(&name), &[(Kind::Int, width); 2], RANDOM);
                    // Random operands are rarely equal.
                    for index in (0..columns[0].values.len()).step_by(7) {
                        columns[1].values[index] = columns[0].values[index];
                    }
                    let body = format!("setp.{operator}.{ty} %p, %a, %b;\nselp.b32 %d, 1, 0, %p;");
                    let model = move |x: &[u64]| {
                        let read = |bits: u64| {
                            if signed { i128::from(sign_extend(bits, width)) } else { i128::from(bits) }
                        };
                        Some(u64::from(holds(read(x[0]), read(x[1]))))
                    };
                    exact_on(&name, &body, &[Width::B32], columns, Some(per_value(Box::new(model))))
                });
            }
        }
    }
    // Both results of a combined comparison: p = (a < b) op c, q = !(a < b) op c.
    for (operator, combine) in
        [("and", (|a, b| a & b) as fn(bool, bool) -> bool), ("or", |a, b| a | b), ("xor", |a, b| a ^ b)]
    {
        let name = format!("setp.lt.{operator}.s32 p|q");
        table.add(&name.clone(), move || {
            let columns = operands(&mut Rng::for_name(&name), &[(Kind::Int, Width::B32); 3], RANDOM);
            let body = format!(
                "setp.ne.u32 %q, %c, 0;\nsetp.lt.{operator}.s32 %p|%past, %a, %b, !%q;\nselp.b32 %d, 1, 0, %p;\nselp.b32 %f, 1, 0, %past;"
            );
            let model = move |columns: &[crate::kernel::Column], index: usize| {
                let x: Vec<i32> = columns.iter().map(|column| column.values[index] as u32 as i32).collect();
                let (less, third) = (x[0] < x[1], x[2] == 0);
                Some(vec![u64::from(combine(less, third)), u64::from(combine(!less, third))])
            };
            exact_on(&name, &body, &[Width::B32; 2], columns, Some(Box::new(model)))
        });
    }
}
