//! Decodes `setp`, `set`, `slct` and `testp`.

use super::decode::{Decoded, Decoder, Mods, Pipe, arity, reject};
use super::lane::{TestSpec, lane, test};
use super::op::{BoolOp, Class, Flow, Op, Slot};
use super::types::Ty;
use crate::num::float::{self, Class as FloatClass, FloatCmp};
use crate::num::half::{self, HalfTy};
use crate::ptx::ast::{Instruction, Operand};

const COMPARISONS: &[(&str, FloatCmp)] = &[
    ("eq", FloatCmp::Eq),
    ("ne", FloatCmp::Ne),
    ("lt", FloatCmp::Lt),
    ("le", FloatCmp::Le),
    ("gt", FloatCmp::Gt),
    ("ge", FloatCmp::Ge),
    ("lo", FloatCmp::Lt),
    ("ls", FloatCmp::Le),
    ("hi", FloatCmp::Gt),
    ("hs", FloatCmp::Ge),
    ("equ", FloatCmp::Equ),
    ("neu", FloatCmp::Neu),
    ("ltu", FloatCmp::Ltu),
    ("leu", FloatCmp::Leu),
    ("gtu", FloatCmp::Gtu),
    ("geu", FloatCmp::Geu),
    ("num", FloatCmp::Num),
    ("nan", FloatCmp::Nan),
];

macro_rules! int_test {
    ($cmp:expr, $t:ty) => {
        match $cmp {
            FloatCmp::Eq => test!(|a: $t, b| a == b),
            FloatCmp::Ne => test!(|a: $t, b| a != b),
            FloatCmp::Lt => test!(|a: $t, b| a < b),
            FloatCmp::Le => test!(|a: $t, b| a <= b),
            FloatCmp::Gt => test!(|a: $t, b| a > b),
            FloatCmp::Ge => test!(|a: $t, b| a >= b),
            _ => return reject("comparison is for floats only"),
        }
    };
}

macro_rules! float_test {
    ($cmp:expr, $t:ty, |$x:ident| $read:expr) => {{
        macro_rules! with {
            ($op:expr) => {
                test!(|a: $t, b| {
                    let read = |$x: $t| $read;
                    float::compare($op, read(a), read(b))
                })
            };
        }
        match $cmp {
            FloatCmp::Eq => with!(FloatCmp::Eq),
            FloatCmp::Ne => with!(FloatCmp::Ne),
            FloatCmp::Lt => with!(FloatCmp::Lt),
            FloatCmp::Le => with!(FloatCmp::Le),
            FloatCmp::Gt => with!(FloatCmp::Gt),
            FloatCmp::Ge => with!(FloatCmp::Ge),
            FloatCmp::Equ => with!(FloatCmp::Equ),
            FloatCmp::Neu => with!(FloatCmp::Neu),
            FloatCmp::Ltu => with!(FloatCmp::Ltu),
            FloatCmp::Leu => with!(FloatCmp::Leu),
            FloatCmp::Gtu => with!(FloatCmp::Gtu),
            FloatCmp::Geu => with!(FloatCmp::Geu),
            FloatCmp::Num => with!(FloatCmp::Num),
            FloatCmp::Nan => with!(FloatCmp::Nan),
        }
    }};
}

fn test_of(cmp: FloatCmp, ty: Ty, ftz: bool) -> Decoded<TestSpec> {
    Ok(match ty {
        Ty::U16 | Ty::B16 => int_test!(cmp, u16),
        Ty::S16 => int_test!(cmp, i16),
        Ty::U32 | Ty::B32 => int_test!(cmp, u32),
        Ty::S32 => int_test!(cmp, i32),
        Ty::U64 | Ty::B64 => int_test!(cmp, u64),
        Ty::S64 => int_test!(cmp, i64),
        Ty::F32 if ftz => float_test!(cmp, f32, |x| float::ftz(x)),
        Ty::F32 => float_test!(cmp, f32, |x| x),
        Ty::F64 => float_test!(cmp, f64, |x| x),
        Ty::F16 => float_test!(cmp, u32, |x| half::widen(HalfTy::F16, x)),
        Ty::Bf16 => float_test!(cmp, u32, |x| half::widen(HalfTy::Bf16, x)),
        _ => return reject("type cannot be compared"),
    })
}

const BOOLEANS: &[(&str, BoolOp)] = &[("and", BoolOp::And), ("or", BoolOp::Or), ("xor", BoolOp::Xor)];

/// A comparison with its operands.
struct Comparison {
    ty: Ty,
    cmp: FloatCmp,
    combine: Option<BoolOp>,
    negate: bool,
    sources: Vec<Slot>,
}

impl Comparison {
    /// The type of one half of a packed type.
    fn half_type(&self) -> Ty {
        if self.ty == Ty::F16x2 { Ty::F16 } else { Ty::Bf16 }
    }
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn compare(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        match i.opcode {
            "setp" => self.setp(i, m)?,
            "set" => self.set(i, m)?,
            "slct" => {
                m.take("ftz");
                let (ty, by) = (m.ty()?, m.ty()?);
                m.finish()?;
                let spec = match (ty.bits(), by) {
                    (16 | 32, Ty::S32) => {
                        lane!(|a: u32, b: u32, c: i32| -> u32 { if c >= 0 { a } else { b } })
                    }
                    (64, Ty::S32) => lane!(|a: u64, b: u64, c: i32| -> u64 { if c >= 0 { a } else { b } }),
                    (16 | 32, Ty::F32) => {
                        lane!(|a: u32, b: u32, c: f32| -> u32 { if c >= 0.0 { a } else { b } })
                    }
                    (64, Ty::F32) => lane!(|a: u64, b: u64, c: f32| -> u64 { if c >= 0.0 { a } else { b } }),
                    _ => return reject("slct selects by .s32 or .f32"),
                };
                self.typed(i, (ty, &[ty, ty, by]), spec, Flow::Any, 0)?;
            }
            "testp" => {
                let class = m.take_of(&[
                    ("finite", FloatClass::Finite),
                    ("infinite", FloatClass::Infinite),
                    ("number", FloatClass::Number),
                    ("notanumber", FloatClass::NotANumber),
                    ("normal", FloatClass::Normal),
                    ("subnormal", FloatClass::Subnormal),
                ]);
                let ty = m.ty()?;
                m.finish()?;
                arity(i, 2)?;
                macro_rules! with {
                    ($c:expr) => {
                        if ty == Ty::F64 {
                            test!(|a: f64, _b| float::test_f64($c, a))
                        } else {
                            test!(|a: f32, _b| float::test_f32($c, a))
                        }
                    };
                }
                let spec = match class {
                    Some(FloatClass::Finite) => with!(FloatClass::Finite),
                    Some(FloatClass::Infinite) => with!(FloatClass::Infinite),
                    Some(FloatClass::Number) => with!(FloatClass::Number),
                    Some(FloatClass::NotANumber) => with!(FloatClass::NotANumber),
                    Some(FloatClass::Normal) => with!(FloatClass::Normal),
                    Some(FloatClass::Subnormal) => with!(FloatClass::Subnormal),
                    None => return reject("testp needs a class"),
                };
                let p = self.pred_dst(&i.operands[0])?;
                let a = self.src(&i.operands[1], ty)?;
                if a.is_wide() != spec.wide {
                    return reject("operand register has the wrong width");
                }
                self.emit(Op::Test { f: spec.f, combine: None, negate: false }, &[p], &[a, a]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn setp(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let Some(cmp) = m.take_of(COMPARISONS) else { return reject("comparison is missing or unknown") };
        let combine = m.take_of(BOOLEANS);
        let ftz = m.take("ftz");
        let ty = m.ty()?;
        m.finish()?;
        if ty.is_float() {
            self.pipe = if ty == Ty::F64 { Pipe::Fp64 } else { Pipe::Fp32 };
        }
        arity(i, if combine.is_some() { 4 } else { 3 })?;
        let (p, q) = match &i.operands[0] {
            Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
            one => (one, None),
        };
        let p = self.pred_dst(p)?;
        let q = match q {
            Some(q) => Some(self.pred_dst(q)?),
            None => None,
        };
        let comparison = self.comparison(i, ty, cmp, combine)?;
        if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
            return self.setp_pair(&comparison, p, q);
        }
        let spec = test_of(cmp, ty, ftz)?;
        let Comparison { negate, sources, .. } = comparison;
        if sources[..2].iter().any(|slot| slot.is_wide() != spec.wide) {
            return reject("operand register has the wrong width");
        }
        let mut results = vec![p];
        results.extend(q);
        self.emit(Op::Test { f: spec.f, combine, negate }, &results, &sources);
        Ok(())
    }

    /// Decodes the operands of a comparison: two values and, if there is one, the combining predicate.
    fn comparison(
        &mut self,
        i: &Instruction<'a>,
        ty: Ty,
        cmp: FloatCmp,
        combine: Option<BoolOp>,
    ) -> Decoded<Comparison> {
        let mut sources = vec![self.src(&i.operands[1], ty)?, self.src(&i.operands[2], ty)?];
        let mut negate = false;
        if combine.is_some() {
            let (predicate, negated) = self.pred(&i.operands[3])?;
            negate = negated;
            sources.push(predicate);
        }
        Ok(Comparison { ty, cmp, combine, negate, sources })
    }

    /// Decodes `setp.f16x2`: p is the result for the low halves, q for the high halves.
    fn setp_pair(&mut self, comparison: &Comparison, p: Slot, q: Option<Slot>) -> Decoded {
        let &Comparison { cmp, combine, negate, ref sources, .. } = comparison;
        let spec = test_of(cmp, comparison.half_type(), false)?;
        let (a, b, extra) = (sources[0], sources[1], &sources[2..]);
        let low = ([a, b], p);
        let mut tests = vec![low];
        if let Some(q) = q {
            let (ha, hb) = (self.fresh(Class::R32), self.fresh(Class::R32));
            for (d, s) in [(ha, a), (hb, b)] {
                self.lane(lane!(|a: u32| -> u32 { a >> 16 }), Flow::Any, 0, d, &[s])?;
            }
            tests.push(([ha, hb], q));
        }
        // Both tests read the combining predicate, so a result that overwrites it comes last.
        tests.sort_by_key(|(_, result)| extra.contains(result));
        for (sources, result) in tests {
            self.emit(Op::Test { f: spec.f, combine, negate }, &[result], &[&sources, extra].concat());
        }
        Ok(())
    }

    fn set(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let Some(cmp) = m.take_of(COMPARISONS) else { return reject("comparison is missing or unknown") };
        let combine = m.take_of(BOOLEANS);
        let ftz = m.take("ftz");
        let (result, ty) = (m.ty()?, m.ty()?);
        m.finish()?;
        arity(i, if combine.is_some() { 4 } else { 3 })?;
        let d = self.dst(&i.operands[0], result)?;
        let comparison = self.comparison(i, ty, cmp, combine)?;
        if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
            return self.set_pair(&comparison, result, d);
        }
        let spec = test_of(cmp, ty, ftz)?;
        let Comparison { negate, sources, .. } = comparison;
        if sources[..2].iter().any(|slot| slot.is_wide() != spec.wide) || d.is_wide() {
            return reject("operand register has the wrong width");
        }
        let truth = match result {
            Ty::F32 => 1f32.to_bits(),
            Ty::F16 => 0x3c00,
            Ty::Bf16 => 0x3f80,
            Ty::U16 | Ty::S16 => 0xffff,
            _ => u32::MAX,
        };
        self.emit(Op::Set { f: spec.f, combine, negate, truth }, &[d], &sources);
        Ok(())
    }

    /// Decodes `set.f16x2`: one comparison for each half.
    fn set_pair(&mut self, comparison: &Comparison, result: Ty, d: Slot) -> Decoded {
        let &Comparison { cmp, combine, negate, ref sources, .. } = comparison;
        let spec = test_of(cmp, comparison.half_type(), false)?;
        let truth = match result {
            Ty::F16x2 => 0x3c00,
            Ty::Bf16x2 => 0x3f80,
            Ty::U32 | Ty::S32 | Ty::B32 => 0xffff,
            _ => return reject("result type of a packed set is not supported"),
        };
        let mut halves = Vec::new();
        for high in [false, true] {
            let mut parts = sources.clone();
            if high {
                for part in &mut parts[..2] {
                    let t = self.fresh(Class::R32);
                    self.lane(lane!(|a: u32| -> u32 { a >> 16 }), Flow::Any, 0, t, &[*part])?;
                    *part = t;
                }
            }
            let t = self.fresh(Class::R32);
            self.emit(Op::Set { f: spec.f, combine, negate, truth }, &[t], &parts);
            halves.push(t);
        }
        self.emit(Op::Pack { bits: 16 }, &[d], &halves);
        Ok(())
    }
}
