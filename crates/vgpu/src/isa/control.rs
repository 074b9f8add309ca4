//! Decodes branches, calls, returns and traps.

use super::decode::{Decoded, Decoder, Entity, Mods, Pipe, arity, reject};
use super::op::{Op, Slot};
use super::types::Ty;
use crate::ptx::ast::{Instruction, Operand};

impl<'a> Decoder<'a, '_> {
    pub(super) fn control(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        self.pipe = Pipe::Control;
        match i.opcode {
            "bra" => {
                m.take("uni");
                m.finish()?;
                arity(i, 1)?;
                let Operand::Name { name, .. } = i.operands[0] else {
                    return reject("branch target is not a label");
                };
                let at = self.emit(Op::Branch { target: 0 }, &[], &[]);
                self.branch(at, vec![name], i.pos);
            }
            "brx" => {
                m.take("idx");
                m.take("uni");
                m.finish()?;
                arity(i, 2)?;
                let index = self.src(&i.operands[0], Ty::U32)?;
                let Operand::Name { name, .. } = i.operands[1] else {
                    return reject("branch table is not a name");
                };
                let Some(targets) = self.branch_targets.get(name).cloned() else {
                    return reject(format!("unknown branch table `{name}`"));
                };
                let at = self.emit(Op::BranchIndexed { targets: Box::default() }, &[], &[index]);
                self.branch(at, targets, i.pos);
            }
            "call" => self.call(i, m)?,
            "ret" => {
                m.take("uni");
                m.finish()?;
                if self.entry {
                    self.emit(Op::Exit, &[], &[]);
                } else {
                    let words = self.returns.clone();
                    self.emit(Op::Return, &[], &words);
                }
            }
            "exit" => {
                m.finish()?;
                self.emit(Op::Exit, &[], &[]);
            }
            "trap" => {
                m.finish()?;
                self.emit(Op::Trap { what: "trap" }, &[], &[]);
            }
            "brkpt" => {
                m.finish()?;
                self.emit(Op::Trap { what: "brkpt" }, &[], &[]);
            }
            "nanosleep" => {
                m.ty()?;
                m.finish()?;
                self.emit(Op::Nanosleep, &[], &[]);
            }
            "pmevent" => {
                m.take("mask");
                m.finish()?;
                self.emit(Op::Prefetch, &[], &[]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn words_of(&self, operand: &Operand<'a>) -> Decoded<(Vec<Slot>, u32)> {
        let Operand::Name { name, .. } = operand else { return reject("call operand is not a parameter") };
        match self.lookup(name) {
            Some(Entity::ParamWords { words, bytes }) => Ok((words, bytes)),
            _ => reject(format!("`{name}` is not a call parameter")),
        }
    }

    fn call(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        m.take("uni");
        m.finish()?;
        let mut operands = &i.operands[..];
        let mut returns = &[][..];
        if let [Operand::List(list), rest @ ..] = operands {
            returns = list;
            operands = rest;
        }
        let (target, args): (&Operand<'a>, &[Operand<'a>]) = match operands {
            [target] => (target, &[]),
            [target, Operand::List(args)] => (target, args),
            // The prototype or the list of targets is not needed: the virtual GPU checks the target at the call.
            [target, Operand::List(args), Operand::Name { .. }] => (target, args),
            _ => return reject("malformed call"),
        };
        let Operand::Name { name, .. } = *target else { return reject("call target is not a function") };
        let mut results = Vec::new();
        let mut result_bytes = Vec::new();
        for r in returns {
            let (words, bytes) = self.words_of(r)?;
            results.extend(words);
            result_bytes.push(bytes);
        }
        let mut sources = Vec::new();
        let mut arg_bytes = Vec::new();
        for a in args {
            let (words, bytes) = self.words_of(a)?;
            sources.extend(words);
            arg_bytes.push(bytes);
        }
        if let Some(Entity::Reg { slot, .. }) = self.lookup(name) {
            if !slot.is_wide() {
                return reject("function pointers are 64 bits wide");
            }
            if results.len() + sources.len() > 250 {
                return reject("call passes more than 1000 bytes");
            }
            self.indirect = true;
            let sources = [&[slot], &sources[..]].concat();
            self.emit(Op::CallIndirect, &results, &sources);
            return Ok(());
        }
        match name {
            "vprintf" => {
                if sources.len() != 4 || results.len() > 1 {
                    return reject("vprintf takes two pointers");
                }
                self.emit(Op::Printf, &results, &sources);
                return Ok(());
            }
            "__assertfail" => {
                self.emit(Op::AssertFail, &[], &sources);
                return Ok(());
            }
            "malloc" => {
                if sources.len() != 2 || results.len() != 2 {
                    return reject("malloc takes a size and returns a pointer");
                }
                self.emit(Op::Malloc, &results, &sources);
                return Ok(());
            }
            "free" => {
                if sources.len() != 2 || !results.is_empty() {
                    return reject("free takes a pointer");
                }
                self.emit(Op::Free, &[], &sources);
                return Ok(());
            }
            _ => {}
        }
        let Some(callee) = (self.callees)(name) else {
            return reject(format!("function `{name}` is declared but not defined in this module"));
        };
        if callee.params != arg_bytes || callee.returns != result_bytes {
            return reject(format!("call does not match the parameters of `{name}`"));
        }
        if results.len() + sources.len() > 250 {
            return reject("call passes more than 1000 bytes");
        }
        self.emit(Op::Call { function: callee.index }, &results, &sources);
        Ok(())
    }
}
