//! Decodes video instructions: `vadd`, `vabsdiff4` and their siblings.

use super::decode::{Decoded, Decoder, Mods, operands, reject};
use super::lane::lane;
use super::op::{Flow, Slot};
use super::types::Ty;
use crate::num::int::{self, Prmt};
use crate::num::video::{self, Cmp, Part, Scalar, Second, Signs, Simd, VideoOp};
use crate::ptx::ast::{Instruction, Operand};

/// Splits a selector such as `.b0` or `.h10` from the name of a register.
fn split<'a>(operand: &Operand<'a>) -> (Operand<'a>, Option<&'a str>) {
    if let Operand::Name { name, negated } = operand
        && let Some((stem, selector)) = name.rsplit_once('.')
        && matches!(selector.as_bytes(), [b'b' | b'h', digits @ ..] if digits.iter().all(u8::is_ascii_digit))
    {
        return (Operand::Name { name: stem, negated: *negated }, Some(selector));
    }
    (operand.clone(), None)
}

fn part(selector: Option<&str>) -> Decoded<Part> {
    Ok(match selector {
        None => Part::Word,
        Some("b0") => Part::Byte(0),
        Some("b1") => Part::Byte(1),
        Some("b2") => Part::Byte(2),
        Some("b3") => Part::Byte(3),
        Some("h0") => Part::Half(0),
        Some("h1") => Part::Half(1),
        Some(other) => return reject(format!("there is no part `.{other}` of a register")),
    })
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn video(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let (stem, parts) = match i.opcode.as_bytes() {
            [stem @ .., b'2'] => (stem.len(), 2),
            [stem @ .., b'4'] => (stem.len(), 4),
            all => (all.len(), 1),
        };
        let op = match &i.opcode[..stem] {
            "vadd" => VideoOp::Add,
            "vsub" => VideoOp::Sub,
            "vavrg" => VideoOp::Average,
            "vabsdiff" => VideoOp::AbsDiff,
            "vmin" => VideoOp::Min,
            "vmax" => VideoOp::Max,
            "vset" => {
                let cmp = m.take_of(&[
                    ("eq", Cmp::Eq),
                    ("ne", Cmp::Ne),
                    ("lt", Cmp::Lt),
                    ("le", Cmp::Le),
                    ("gt", Cmp::Gt),
                    ("ge", Cmp::Ge),
                ]);
                let Some(cmp) = cmp else { return reject("comparison is missing or unknown") };
                VideoOp::Set(cmp)
            }
            shift => {
                let wrap = m.take("wrap");
                if wrap == m.take("clamp") {
                    return reject("a shift needs .clamp or .wrap");
                }
                if shift == "vshl" { VideoOp::Shl { wrap } } else { VideoOp::Shr { wrap } }
            }
        };
        let saturate = m.take("sat");
        let mut signed = || match m.ty() {
            Ok(ty @ (Ty::U32 | Ty::S32)) => Ok(ty == Ty::S32),
            _ => reject("video instructions take .u32 and .s32"),
        };
        // A comparison has no type of a result.
        let d = if matches!(op, VideoOp::Set(_)) { false } else { signed()? };
        let signs = Signs { d, a: signed()?, b: signed()? };
        let second = m.take_of(&[("add", Second::Add), ("min", Second::Min), ("max", Second::Max)]);
        m.finish()?;
        if parts == 1 {
            let second = second.unwrap_or(Second::None);
            self.video_scalar(
                i,
                Scalar { op, signs, saturate, second, a: Part::Word, b: Part::Word, d: Part::Word },
            )
        } else {
            if !matches!(second, None | Some(Second::Add)) {
                return reject("SIMD video instructions accumulate with .add only");
            }
            let sum = second.is_some();
            self.video_simd(i, Simd { op, bytes: parts == 4, signs, saturate, sum, mask: 0 })
        }
    }

    fn video_scalar(&mut self, i: &Instruction<'a>, mut form: Scalar) -> Decoded {
        let [d, a, b, rest @ ..] = &i.operands[..] else { return reject("takes 3 or 4 operands") };
        let ((d, at_d), (a, at_a), (b, at_b)) = (split(d), split(a), split(b));
        (form.d, form.a, form.b) = (part(at_d)?, part(at_a)?, part(at_b)?);
        let merges = form.d != Part::Word;
        let c = match rest {
            [] if form.second == Second::None && !merges => self.imm32(0),
            [c] if (form.second != Second::None) != merges => self.src(c, Ty::B32)?,
            _ => {
                return reject(
                    "takes a third operand for .add, .min, .max or a part of the result, and no other",
                );
            }
        };
        let d = self.dst(&d, Ty::B32)?;
        let (a, b) = (self.src(&a, Ty::B32)?, self.src(&b, Ty::B32)?);
        let spec = lane!(|a: u32, b: u32, c: u32; imm| -> u32 { video::scalar(a, b, c, imm) });
        self.lane(spec, Flow::Any, form.pack(), d, &[a, b, c])
    }

    fn video_simd(&mut self, i: &Instruction<'a>, mut form: Simd) -> Decoded {
        let [d, a, b, c] = operands(i)?;
        let (d, mask) = split(d);
        let parts = if form.bytes { 4 } else { 2 };
        let (unit, default) = if form.bytes { (b'b', "b3210") } else { (b'h', "h10") };
        let mask = mask.unwrap_or(default).as_bytes();
        if mask[0] != unit {
            return reject("the mask of the result names other parts than the instruction");
        }
        for digit in &mask[1..] {
            let n = u32::from(digit - b'0');
            if n >= parts {
                return reject("the mask of the result names a part that does not exist");
            }
            form.mask |= 1 << n;
        }
        let ((a, at_a), (b, at_b)) = (split(a), split(b));
        let (a, b) = (self.src(&a, Ty::B32)?, self.src(&b, Ty::B32)?);
        let left = self.select_parts(a, b, at_a, form.bytes, 0)?;
        let right = self.select_parts(a, b, at_b, form.bytes, parts)?;
        let c = self.src(c, Ty::B32)?;
        let d = self.dst(&d, Ty::B32)?;
        let spec = lane!(|a: u32, b: u32, c: u32; imm| -> u32 { video::simd(a, b, c, imm) });
        self.lane(spec, Flow::Any, form.pack(), d, &[left, right, c])
    }

    /// The parts of `a` and `b` that a selector such as `.b7531` names, the highest first. Without a selector, the
    /// parts from number `first` on. Parts are counted from the low end of `a` to the high end of `b`.
    fn select_parts(
        &mut self,
        a: Slot,
        b: Slot,
        selector: Option<&str>,
        bytes: bool,
        first: u32,
    ) -> Decoded<Slot> {
        let Some(selector) = selector else { return Ok(if first == 0 { a } else { b }) };
        let (unit, parts) = if bytes { (b'b', 4) } else { (b'h', 2) };
        let digits: Vec<u32> = selector.bytes().skip(1).map(|digit| u32::from(digit - b'0')).collect();
        if selector.as_bytes()[0] != unit
            || digits.len() != parts
            || digits.iter().any(|n| *n >= 2 * parts as u32)
        {
            return reject(format!("`.{selector}` does not select {parts} parts of two registers"));
        }
        // The operand of `prmt` that selects the same bytes.
        let mut select = 0;
        for n in digits {
            select = if bytes { select << 4 | n } else { select << 8 | (2 * n + 1) << 4 | (2 * n) };
        }
        let select = self.imm32(select);
        let spec = lane!(|a: u32, b: u32, c: u32| -> u32 { int::prmt(a, b, c, Prmt::Index) });
        self.intermediate(spec, &[a, b, select])
    }
}
