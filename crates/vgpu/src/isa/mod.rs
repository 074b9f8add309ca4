//! The instruction table: mnemonic, modifiers and operands of PTX to typed operations.
//!
//! [`decode::Decoder`] holds what an instruction may refer to; one file per group of instructions holds the rows.
//! What is not in a row is refused, by name and line, when the module is loaded.

mod async_copy;
mod atomic;
mod bulk;
mod cluster;
mod compare;
mod control;
mod convert;
pub mod decode;
mod float;
mod half;
mod integer;
pub mod lane;
mod logic;
mod memory;
pub mod op;
mod sync;
mod tensor;
pub mod types;
mod wgmma;

pub(crate) use atomic::allowed as reduction_exists;
pub use decode::Pipe;

use crate::ptx::ast::Instruction;
use decode::{Decoded, Decoder, Mods};

impl<'a> Decoder<'a, '_> {
    /// Decodes one instruction, or says why not. The groups are asked in turn; each knows its opcodes.
    pub fn instruction(&mut self, i: &Instruction<'a>) -> Decoded {
        self.begin(i.pos.line);
        self.set_guard(i.guard)?;
        let mut m = Mods::new(i.modifiers);
        let m = &mut m;
        let known = self.control(i, m)?
            || self.memory(i, m)?
            || self.atomic(i, m)?
            || self.sync(i, m)?
            || self.async_copy(i, m)?
            || self.tensor(i, m)?
            || self.warpgroup(i, m)?
            || self.cluster(i, m)?
            || self.arithmetic(i, m)?;
        if known { Ok(()) } else { decode::reject("instruction is not supported") }
    }

    fn arithmetic(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        self.pipe = Pipe::Integer;
        Ok(self.half(i, m)?
            || self.float(i, m)?
            || self.logic(i, m)?
            || self.compare(i, m)?
            || self.convert(i, m)?
            || {
                self.pipe = Pipe::Integer;
                self.integer(i, m)?
            })
    }
}
