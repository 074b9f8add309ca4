//! Tensor instructions: `ldmatrix`, `stmatrix`, `movmatrix`, `wmma`, `mma`.

use super::decode::{Decoded, Decoder, Mods};
use crate::ptx::ast::Instruction;

impl<'a> Decoder<'a, '_> {
    pub(super) fn tensor(&mut self, _i: &Instruction<'a>, _m: &mut Mods<'a>) -> Decoded<bool> {
        Ok(false)
    }
}
