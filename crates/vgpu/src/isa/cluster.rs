//! Decodes instructions for clusters of blocks: cluster barriers, addresses in other blocks' shared memory, and
//! dependent grids.

use super::decode::{Decoded, Decoder, Mods, operands, reject};
use super::memory::SCOPES;
use super::op::Op;
use super::types::Ty;
use crate::ptx::ast::Instruction;

impl<'a> Decoder<'a, '_> {
    /// Launches run one after another here, so the grids that this one depends on are complete.
    pub(super) fn grid_dependency(&mut self, _: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let wait = m.take("wait");
        if !wait && !m.take("launch_dependents") {
            return reject("operation is missing or unknown");
        }
        m.finish()?;
        self.emit(Op::GridDependency { wait }, &[], &[])
    }

    pub(super) fn cluster_address(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let generic = !m.take("shared::cluster");
        let ty = m.last_ty()?;
        if !matches!(ty, Ty::U32 | Ty::U64) || generic && ty == Ty::U32 {
            return reject("takes .u64, or .u32 in .shared::cluster");
        }
        if i.opcode == "getctarank" {
            let [d, a] = operands(i)?;
            let (d, a) = (self.dst(d, Ty::U32)?, self.src(a, ty)?);
            return self.emit(Op::BlockOfAddress { generic }, &[d], &[a]);
        }
        let [d, a, rank] = operands(i)?;
        let d = self.dst(d, ty)?;
        let sources = [self.src(a, ty)?, self.src(rank, Ty::U32)?];
        self.emit(Op::MapAddress { generic }, &[d], &sources)
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
        let [] = operands(i)?;
        self.emit(Op::ClusterBarrier { arrive, relaxed, aligned }, &[], &[])
    }
}
