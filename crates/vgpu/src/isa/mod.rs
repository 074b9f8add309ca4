//! The instruction decoder: turns the mnemonic, modifiers and operands of a PTX instruction into typed operations.
//!
//! [`table`] declares every instruction; [`properties`] declares what the rest of the virtual GPU must know about every
//! operation. [`decode::Decoder`] holds everything that an instruction may refer to. Each group of instructions has its
//! own file. An instruction that the table does not have is rejected when the module is loaded, with its name and line.

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
pub mod properties;
mod sync;
pub mod table;
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
    /// Decodes one instruction or returns the reason for its rejection.
    pub fn instruction(&mut self, i: &Instruction<'a>) -> Decoded {
        let m = &mut Mods::new(i.modifiers);
        let form = table::instruction(i.opcode).and_then(|row| row.form(m));
        self.begin(i.pos.line, form.map_or(Pipe::Control, |form| form.pipe));
        self.set_guard(i.guard)?;
        self.meta.own_shared = m.has("shared") || m.has("shared::cta");
        match form {
            Some(form) => (form.decode)(self, i, m),
            None => self.unsupported(i, m),
        }
    }

    fn unsupported(&mut self, _: &Instruction<'a>, _: &mut Mods<'a>) -> Decoded {
        decode::reject("instruction is not supported")
    }
}
