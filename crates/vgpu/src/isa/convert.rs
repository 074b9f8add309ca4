//! Decodes `cvt`, `cvt.pack` and `cvta`.

use super::decode::{Constant, Decoded, Decoder, Mods, operands, reject};
use super::lane::{LaneSpec, lane};
use super::op::{Class, Flow, Op, Slot};
use super::types::{Space, Ty};
use crate::num::Round;
use crate::num::cvt::Cvt;
use crate::ptx::ast::Instruction;

/// The type as which a value is converted: bits count as an unsigned integer.
fn converted_type(ty: Ty) -> Decoded<Ty> {
    Ok(match ty {
        Ty::B8 => Ty::U8,
        Ty::B16 => Ty::U16,
        Ty::B32 => Ty::U32,
        Ty::B64 => Ty::U64,
        Ty::Ue8m0x2 => ty,
        _ if ty.integer().is_some() || ty.format().is_some() => ty,
        _ => return reject("cvt does not know this type"),
    })
}

/// The lane function of a plain conversion between integers, or from an integer to f32. These are by far the most common
/// conversions, and lane functions vectorise.
fn plain(cvt: Cvt, (to, d): (Ty, Slot), (from, a): (Ty, Slot)) -> Option<LaneSpec> {
    if cvt.sat || cvt.integral && to != Ty::F32 {
        return None;
    }
    Some(match (to, from) {
        (Ty::U64 | Ty::S64 | Ty::B64, Ty::U32) if !a.is_wide() => lane!(|a: u32| -> u64 { a as u64 }),
        (Ty::U64 | Ty::S64 | Ty::B64, Ty::S32) if !a.is_wide() => lane!(|a: i32| -> i64 { a as i64 }),
        (Ty::U32 | Ty::S32 | Ty::B32, Ty::U64 | Ty::S64) if !d.is_wide() => {
            lane!(|a: u64| -> u32 { a as u32 })
        }
        (Ty::U32 | Ty::S32, Ty::U16) if !d.is_wide() && !a.is_wide() => lane!(|a: u16| -> u32 { a as u32 }),
        (Ty::U16 | Ty::S16, Ty::U32 | Ty::S32) if !d.is_wide() && !a.is_wide() => {
            lane!(|a: u32| -> u32 { a & 0xffff })
        }
        (Ty::F32, Ty::S32) if cvt.round == Round::Nearest => lane!(|a: i32| -> f32 { a as f32 }),
        (Ty::F32, Ty::U32) if cvt.round == Round::Nearest => lane!(|a: u32| -> f32 { a as f32 }),
        _ => return None,
    })
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn cvt(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.has("pack") {
            return self.cvt_pack(i, m);
        }
        let integral = m.take_of(&[
            ("rni", Round::Nearest),
            ("rzi", Round::Zero),
            ("rmi", Round::Down),
            ("rpi", Round::Up),
        ]);
        let round = m.round();
        let (ftz, sat) = (m.take("ftz"), m.take("sat"));
        let (satfinite, relu) = (m.take("satfinite"), m.take("relu"));
        let (to, from) = (m.ty()?, m.ty()?);
        m.finish()?;
        let mut cvt = Cvt::new(converted_type(to)?, converted_type(from)?);
        cvt.round = integral.or(round).unwrap_or(Round::Nearest);
        cvt.integral = integral.is_some();
        cvt.ftz = ftz;
        cvt.sat = sat;
        cvt.satfinite = satfinite;
        cvt.relu = relu;
        // Registers may be wider than the types (`cvt.u8.u32 %rs`), so the classes come from the registers.
        let [d, sources @ ..] = &i.operands[..] else { return reject("operand is not a register") };
        let (d, _) = self.any_register(d)?;
        if d.class() == Class::Pred || (to.class() == Class::R64 && !d.is_wide()) {
            return reject("result register is too narrow");
        }
        match sources {
            [a] => {
                let a = match self.any_register(a) {
                    Ok((slot, _)) if slot.class() != Class::Pred => slot,
                    _ => self.src(a, from)?,
                };
                if from.class() == Class::R64 && !a.is_wide() {
                    return reject("source register is too narrow");
                }
                if let Some(spec) = plain(cvt, (to, d), (from, a)) {
                    let flow = if from.is_signed() || to.is_float() { Flow::Any } else { Flow::Resize };
                    return self.lane(spec, flow, 0, d, &[a]);
                }
                self.emit(Op::Convert { cvt, pair: false }, &[d], &[a])
            }
            [_, _] => {
                if !matches!(to, Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2 | Ty::Ue8m0x2)
                    || from != Ty::F32
                {
                    return reject("cvt with two sources packs two f32");
                }
                let sources = self.srcs(sources, from)?;
                if d.is_wide() {
                    return reject("result register has the wrong width");
                }
                self.emit(Op::Convert { cvt, pair: true }, &[d], &sources)
            }
            _ => reject("cvt takes one or two sources"),
        }
    }

    /// Decodes `cvt.pack.sat.u8.s32.b32 d, a, b, c`: saturates a and b, and shifts them in above the low half of c.
    fn cvt_pack(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("pack");
        m.take("sat");
        let (to, from, third) = (m.ty()?, m.ty()?, m.maybe_ty());
        m.finish()?;
        if from != Ty::S32 {
            return reject("cvt.pack converts from .s32");
        }
        let spec = match (to, third.is_some()) {
            (Ty::U16, false) => {
                lane!(|a: i32, b: i32| -> u32 { (a.clamp(0, 65535) as u32) << 16 | b.clamp(0, 65535) as u32 })
            }
            (Ty::S16, false) => lane!(|a: i32, b: i32| -> u32 {
                (a.clamp(-32768, 32767) as u32) << 16 | b.clamp(-32768, 32767) as u32 & 0xffff
            }),
            (Ty::U8, true) => lane!(|a: i32, b: i32, c: u32| -> u32 {
                c << 16 | (a.clamp(0, 255) as u32) << 8 | b.clamp(0, 255) as u32
            }),
            (Ty::S8, true) => lane!(|a: i32, b: i32, c: u32| -> u32 {
                c << 16 | (a.clamp(-128, 127) as u32 & 0xff) << 8 | b.clamp(-128, 127) as u32 & 0xff
            }),
            _ => return reject("form of cvt.pack is not supported"),
        };
        let sources = vec![Ty::B32; if third.is_some() { 3 } else { 2 }];
        self.typed(i, (Ty::B32, &sources), spec, Flow::Any, 0)
    }

    pub(super) fn cvta(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let to = m.take("to");
        let space = m.take_of(&[
            ("global", Space::Global),
            ("const", Space::Global),
            ("shared", Space::Shared),
            ("shared::cta", Space::Shared),
            ("local", Space::Local),
            ("param", Space::Param),
            ("param::entry", Space::Param),
        ]);
        let ty = m.last_ty()?;
        let [d, s] = operands(i)?;
        let Some(space) = space else { return reject("cvta needs a state space") };
        if ty.bits() != 64 {
            return reject("generic addresses are 64 bits wide");
        }
        let d = self.dst(d, ty)?;
        let s = self.address_value(s, ty)?;
        if space == Space::Global {
            return self.copy(d, s);
        }
        let base = self.constants.slot(Class::R64, Constant::Window { space, to });
        self.lane(lane!(|a: u64, b: u64| -> u64 { a.wrapping_add(b) }), Flow::Any, 0, d, &[s, base])
    }
}
