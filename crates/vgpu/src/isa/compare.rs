//! Decodes `setp`, `set`, `slct` and `testp`.

use super::decode::{Decoded, Decoder, Mods, arity, operands, reject};
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
    ($cmp:expr, $t:ty, |$x:ident| $read:expr) => {
        float_test!(@ $cmp, $t, |$x| $read, Eq Ne Lt Le Gt Ge Equ Neu Ltu Leu Gtu Geu Num Nan)
    };
    (@ $cmp:expr, $t:ty, |$x:ident| $read:expr, $($op:ident)+) => {
        match $cmp {
            $(FloatCmp::$op => test!(|a: $t, b| {
                let read = |$x: $t| $read;
                float::compare(FloatCmp::$op, read(a), read(b))
            }),)+
        }
    };
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

/// The modifiers that `setp` and `set` share.
struct Modifiers {
    cmp: FloatCmp,
    combine: Option<BoolOp>,
    ftz: bool,
}

fn comparison_modifiers(m: &mut Mods<'_>) -> Decoded<Modifiers> {
    let Some(cmp) = m.take_of(COMPARISONS) else { return reject("comparison is missing or unknown") };
    Ok(Modifiers { cmp, combine: m.take_of(BOOLEANS), ftz: m.take("ftz") })
}

impl Modifiers {
    /// The number of operands of the instruction.
    fn operands(&self) -> usize {
        if self.combine.is_some() { 4 } else { 3 }
    }
}

/// A comparison with its operands.
struct Comparison {
    ty: Ty,
    modifiers: Modifiers,
    negate: bool,
    sources: Vec<Slot>,
}

impl Comparison {
    /// The function that compares values of a type. It must fit the sources, and the results must be narrow.
    fn test(&self, ty: Ty, results: &[Slot]) -> Decoded<TestSpec> {
        let spec = test_of(self.modifiers.cmp, ty, self.modifiers.ftz)?;
        if self.sources[..2].iter().any(|slot| slot.is_wide() != spec.wide)
            || results.iter().any(|slot| slot.is_wide())
        {
            return reject("operand register has the wrong width");
        }
        Ok(spec)
    }

    fn op(&self, spec: TestSpec) -> Op {
        Op::Test { f: spec.f, combine: self.modifiers.combine, negate: self.negate }
    }

    fn set(&self, spec: TestSpec, truth: u32) -> Op {
        Op::Set { f: spec.f, combine: self.modifiers.combine, negate: self.negate, truth }
    }

    /// The type of one half of a packed type.
    fn half_type(&self) -> Ty {
        if self.ty == Ty::F16x2 { Ty::F16 } else { Ty::Bf16 }
    }
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn slct(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("ftz");
        let (ty, by) = (m.ty()?, m.ty()?);
        m.finish()?;
        let spec = match (ty.bits(), by) {
            (16 | 32, Ty::S32) => lane!(|a: u32, b: u32, c: i32| -> u32 { if c >= 0 { a } else { b } }),
            (64, Ty::S32) => lane!(|a: u64, b: u64, c: i32| -> u64 { if c >= 0 { a } else { b } }),
            (16 | 32, Ty::F32) => lane!(|a: u32, b: u32, c: f32| -> u32 { if c >= 0.0 { a } else { b } }),
            (64, Ty::F32) => lane!(|a: u64, b: u64, c: f32| -> u64 { if c >= 0.0 { a } else { b } }),
            _ => return reject("slct selects by .s32 or .f32"),
        };
        self.typed(i, (ty, &[ty, ty, by]), spec, Flow::Any, 0)
    }

    pub(super) fn testp(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        const CLASSES: [&str; 6] = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
        let class = m.take_matching(|part| CLASSES.into_iter().find(|name| *name == part));
        let ty = m.last_ty()?;
        let [p, a] = operands(i)?;
        macro_rules! test_class {
            ($class:ident) => {
                if ty == Ty::F64 {
                    test!(|a: f64, _b| float::test_f64(FloatClass::$class, a))
                } else {
                    test!(|a: f32, _b| float::test_f32(FloatClass::$class, a))
                }
            };
        }
        let spec = match class {
            Some("finite") => test_class!(Finite),
            Some("infinite") => test_class!(Infinite),
            Some("number") => test_class!(Number),
            Some("notanumber") => test_class!(NotANumber),
            Some("normal") => test_class!(Normal),
            Some(_) => test_class!(Subnormal),
            None => return reject("testp needs a class"),
        };
        let (p, a) = (self.pred_dst(p)?, self.src(a, ty)?);
        if a.is_wide() != spec.wide {
            return reject("operand register has the wrong width");
        }
        self.emit(Op::Test { f: spec.f, combine: None, negate: false }, &[p], &[a, a])
    }

    pub(super) fn setp(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let modifiers = comparison_modifiers(m)?;
        let ty = m.last_ty()?;
        arity(i, modifiers.operands())?;
        let (p, q) = match &i.operands[0] {
            Operand::Pair(pair) => (&pair.0, Some(&pair.1)),
            one => (one, None),
        };
        let p = self.pred_dst(p)?;
        let q = q.map(|q| self.pred_dst(q)).transpose()?;
        let comparison = self.comparison(i, ty, modifiers)?;
        if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
            return self.setp_pair(&comparison, p, q);
        }
        let spec = comparison.test(ty, &[])?;
        let results: Vec<Slot> = [p].into_iter().chain(q).collect();
        self.emit(comparison.op(spec), &results, &comparison.sources)
    }

    /// Decodes the operands of a comparison: two values and, if there is one, the combining predicate.
    fn comparison(&mut self, i: &Instruction<'a>, ty: Ty, modifiers: Modifiers) -> Decoded<Comparison> {
        let mut sources = self.srcs(&i.operands[1..3], ty)?;
        let mut negate = false;
        if modifiers.combine.is_some() {
            let (predicate, negated) = self.pred(&i.operands[3])?;
            negate = negated;
            sources.push(predicate);
        }
        Ok(Comparison { ty, modifiers, negate, sources })
    }

    fn high_half(&mut self, pair: Slot) -> Decoded<Slot> {
        self.intermediate(lane!(|a: u32| -> u32 { a >> 16 }), &[pair])
    }

    /// Decodes `setp.f16x2`: p is the result for the low halves, q for the high halves.
    fn setp_pair(&mut self, comparison: &Comparison, p: Slot, q: Option<Slot>) -> Decoded {
        let spec = comparison.test(comparison.half_type(), &[])?;
        let sources = &comparison.sources;
        let (a, b, extra) = (sources[0], sources[1], &sources[2..]);
        let low = ([a, b], p);
        let mut tests = vec![low];
        if let Some(q) = q {
            tests.push(([self.high_half(a)?, self.high_half(b)?], q));
        }
        // Both tests read the combining predicate, so a result that overwrites it comes last.
        tests.sort_by_key(|(_, result)| extra.contains(result));
        for (sources, result) in tests {
            self.emit(comparison.op(spec), &[result], &[&sources, extra].concat())?;
        }
        Ok(())
    }

    pub(super) fn set(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let modifiers = comparison_modifiers(m)?;
        let (result, ty) = (m.ty()?, m.last_ty()?);
        arity(i, modifiers.operands())?;
        let d = self.dst(&i.operands[0], result)?;
        let comparison = self.comparison(i, ty, modifiers)?;
        if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
            return self.set_pair(&comparison, result, d);
        }
        let spec = comparison.test(ty, &[d])?;
        let truth = match result {
            Ty::F32 => 1f32.to_bits(),
            Ty::F16 => 0x3c00,
            Ty::Bf16 => 0x3f80,
            Ty::U16 | Ty::S16 => 0xffff,
            _ => u32::MAX,
        };
        self.emit(comparison.set(spec, truth), &[d], &comparison.sources)
    }

    /// Decodes `set.f16x2`: one comparison for each half.
    fn set_pair(&mut self, comparison: &Comparison, result: Ty, d: Slot) -> Decoded {
        let spec = comparison.test(comparison.half_type(), &[])?;
        let truth = match result {
            Ty::F16x2 => 0x3c00,
            Ty::Bf16x2 => 0x3f80,
            Ty::U32 | Ty::S32 | Ty::B32 => 0xffff,
            _ => return reject("result type of a packed set is not supported"),
        };
        let mut halves = Vec::new();
        for high in [false, true] {
            let mut parts = comparison.sources.clone();
            if high {
                for part in &mut parts[..2] {
                    *part = self.high_half(*part)?;
                }
            }
            let t = self.fresh(Class::R32);
            self.emit(comparison.set(spec, truth), &[t], &parts)?;
            halves.push(t);
        }
        self.emit(Op::Pack { bits: 16 }, &[d], &halves)
    }
}
