//! Decodes instructions for clusters of blocks: cluster barriers, addresses in other blocks' shared memory, and
//! dependent grids.

use super::decode::{Decoded, Decoder, Mods, Pipe, arity, reject};
use super::memory::SCOPES;
use super::op::Op;
use super::types::Ty;
use crate::ptx::ast::Instruction;

impl<'a> Decoder<'a, '_> {
    pub(super) fn cluster(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded<bool> {
        match i.opcode {
            "mapa" | "getctarank" => self.cluster_address(i, m)?,
            "griddepcontrol" => {
                // Launches run one after another here, so the grids that this one depends on are complete.
                if !m.take("wait") && !m.take("launch_dependents") {
                    return reject("operation is missing or unknown");
                }
                m.finish()?;
                self.pipe = Pipe::Control;
                self.emit(Op::Prefetch, &[], &[]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn cluster_address(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        self.pipe = Pipe::Integer;
        let generic = !m.take("shared::cluster");
        let ty = m.ty()?;
        m.finish()?;
        if !matches!(ty, Ty::U32 | Ty::U64) || generic && ty == Ty::U32 {
            return reject("takes .u64, or .u32 in .shared::cluster");
        }
        if i.opcode == "getctarank" {
            arity(i, 2)?;
            let d = self.dst(&i.operands[0], Ty::U32)?;
            let a = self.src(&i.operands[1], ty)?;
            self.emit(Op::BlockOfAddress { generic }, &[d], &[a]);
            return Ok(());
        }
        arity(i, 3)?;
        let d = self.dst(&i.operands[0], ty)?;
        let a = self.src(&i.operands[1], ty)?;
        let rank = self.src(&i.operands[2], Ty::U32)?;
        self.emit(Op::MapAddress { generic }, &[d], &[a, rank]);
        Ok(())
    }

    /// Decodes the modifiers after `barrier.cluster`.
    pub(super) fn cluster_barrier(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let arrive = m.take("arrive");
        if !arrive && !m.take("wait") {
            return reject("operation is missing or unknown");
        }
        m.ignore(&["release", "acquire"]);
        let relaxed = m.take("relaxed");
        let aligned = m.take("aligned");
        m.take_of(SCOPES);
        m.finish()?;
        arity(i, 0)?;
        self.emit(Op::ClusterBarrier { arrive, relaxed, aligned }, &[], &[]);
        Ok(())
    }
}
