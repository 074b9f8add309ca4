//! The instruction decoder: turns the mnemonic, modifiers and operands of a PTX instruction into typed operations.
//!
//! [`decode::Decoder`] holds everything that an instruction may refer to. Each group of instructions has its own file.
//! An instruction that no group decodes is rejected when the module is loaded, with its name and line.

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
mod texture;
pub mod types;
mod video;
mod wgmma;

pub(crate) use atomic::allowed as reduction_exists;
pub use decode::Pipe;

use crate::ptx::ast::Instruction;
use decode::{Decoded, Decoder, Mods};

impl<'a> Decoder<'a, '_> {
    /// Decodes one instruction or returns the reason for its rejection. The groups are tried in turn, and each knows
    /// its opcodes.
    pub fn instruction(&mut self, i: &Instruction<'a>) -> Decoded {
        self.begin(i.pos.line);
        self.set_guard(i.guard)?;
        let mut m = Mods::new(i.modifiers);
        let m = &mut m;
        self.own_shared = m.has("shared") || m.has("shared::cta");
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
            }
            || self.video(i, m)?)
    }
}
