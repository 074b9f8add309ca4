//! Decodes branches, calls, returns and traps.

use super::decode::{Decoded, Decoder, Entity, Mods, operands, reject};
use super::op::{Op, Slot};
use super::types::Ty;
use crate::ptx::ast::{Instruction, Operand};

impl<'a> Decoder<'a, '_> {
    pub(super) fn branch_to(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("uni");
        m.finish()?;
        let [Operand::Name { name, .. }] = operands(i)? else {
            return reject("branch target is not a label");
        };
        self.branch(vec![name], i.pos);
        self.emit(Op::Branch { target: 0 }, &[], &[])
    }

    pub(super) fn branch_indexed(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("idx");
        m.take("uni");
        m.finish()?;
        let [index, table] = operands(i)?;
        let index = self.src(index, Ty::U32)?;
        let Operand::Name { name, .. } = table else { return reject("branch table is not a name") };
        let Some(targets) = self.branch_targets.get(name).cloned() else {
            return reject(format!("unknown branch table `{name}`"));
        };
        self.branch(targets, i.pos);
        self.emit(Op::BranchIndexed { targets: Box::default() }, &[], &[index])
    }

    pub(super) fn ret(&mut self, _: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("uni");
        m.finish()?;
        self.leave_function()
    }

    /// Emits the end of the function: an exit from a kernel, or a return.
    pub fn leave_function(&mut self) -> Decoded {
        if self.entry {
            return self.emit(Op::Exit, &[], &[]);
        }
        let words = self.returns.clone();
        self.emit(Op::Return, &[], &words)
    }

    pub(super) fn exit(&mut self, _: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.finish()?;
        self.emit(Op::Exit, &[], &[])
    }

    pub(super) fn trap(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.finish()?;
        let what = if i.opcode == "trap" { "trap" } else { "brkpt" };
        self.emit(Op::Trap { what }, &[], &[])
    }

    pub(super) fn nanosleep(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.last_ty()?;
        let [time] = operands(i)?;
        let time = self.src(time, Ty::U32)?;
        self.emit(Op::Nanosleep, &[], &[time])
    }

    /// Decodes `pmevent`, which triggers counters of a profiler.
    pub(super) fn profiler_event(&mut self, _: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("mask");
        m.finish()?;
        self.emit(Op::Nop, &[], &[])
    }

    fn words_of(&self, operand: &Operand<'a>) -> Decoded<(Vec<Slot>, u32)> {
        let Operand::Name { name, .. } = operand else { return reject("call operand is not a parameter") };
        match self.lookup(name) {
            Some(Entity::ParamWords { words, bytes }) => Ok((words, bytes)),
            _ => reject(format!("`{name}` is not a call parameter")),
        }
    }

    /// Decodes the words of all parameters, and the bytes of each.
    fn all_words(&self, operands: &[Operand<'a>]) -> Decoded<(Vec<Slot>, Vec<u32>)> {
        let parameters = operands.iter().map(|it| self.words_of(it)).collect::<Decoded<Vec<_>>>()?;
        let (words, bytes): (Vec<Vec<Slot>>, Vec<u32>) = parameters.into_iter().unzip();
        Ok((words.concat(), bytes))
    }

    pub(super) fn call(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("uni");
        m.finish()?;
        let (returns, operands) = match &i.operands[..] {
            [Operand::List(list), rest @ ..] => (&list[..], rest),
            all => (&[][..], all),
        };
        let (target, args): (&Operand<'a>, &[Operand<'a>]) = match operands {
            [target] => (target, &[]),
            // The prototype or the list of targets is not needed: the virtual GPU checks the target at the call.
            [target, Operand::List(args)] | [target, Operand::List(args), Operand::Name { .. }] => {
                (target, args)
            }
            _ => return reject("malformed call"),
        };
        let Operand::Name { name, .. } = *target else { return reject("call target is not a function") };
        let (results, result_bytes) = self.all_words(returns)?;
        let (sources, arg_bytes) = self.all_words(args)?;
        let is_too_large = results.len() + sources.len() > 250;
        if let Some(Entity::Reg { slot, .. }) = self.lookup(name) {
            if !slot.is_wide() {
                return reject("function pointers are 64 bits wide");
            }
            if is_too_large {
                return reject("call passes more than 1000 bytes");
            }
            self.indirect = true;
            let sources = [&[slot], &sources[..]].concat();
            return self.emit(Op::CallIndirect, &results, &sources);
        }
        match (name, sources.len(), results.len()) {
            ("vprintf", 4, 0 | 1) => return self.emit(Op::Printf, &results, &sources),
            ("vprintf", ..) => return reject("vprintf takes two pointers"),
            ("__assertfail", ..) => return self.emit(Op::AssertFail, &[], &sources),
            ("malloc", 2, 2) => return self.emit(Op::Malloc, &results, &sources),
            ("malloc", ..) => return reject("malloc takes a size and returns a pointer"),
            ("free", 2, 0) => return self.emit(Op::Free, &[], &sources),
            ("free", ..) => return reject("free takes a pointer"),
            _ => {}
        }
        let Some(callee) = (self.callees)(name) else {
            return reject(format!("function `{name}` is declared but not defined in this module"));
        };
        if callee.params != arg_bytes || callee.returns != result_bytes {
            return reject(format!("call does not match the parameters of `{name}`"));
        }
        if is_too_large {
            return reject("call passes more than 1000 bytes");
        }
        self.emit(Op::Call { function: callee.index }, &results, &sources)
    }
}
