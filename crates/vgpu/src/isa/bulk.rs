//! Decodes bulk copies: `cp.async.bulk`, `cp.async.bulk.tensor` and the `tensormap` instructions.

use super::atomic::{OPERATIONS, allowed};
use super::decode::{Decoded, Decoder, Mods, constant_operand, parts, reject};
use super::memory::{SCOPES, ignore_cache_hints, take_space};
use super::op::{AtomOp, Op, Slot, TensorAccess};
use super::types::Ty;
use crate::ptx::ast::{Instruction, Operand};
use crate::tensor_map::Field;

const DIMS: &[(&str, u8)] = &[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)];

/// Direction of a bulk copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Global to shared, completes on an mbarrier.
    Load,
    /// Shared to global, completes by groups.
    Store,
    /// From the block's shared memory to that of any block of the cluster, completes on an mbarrier of that block.
    Pass,
}

fn way(m: &mut Mods<'_>) -> Decoded<Way> {
    if m.take("bulk_group") {
        if m.take("global") && m.take("shared::cta") {
            return Ok(Way::Store);
        }
        return reject("bulk copies that complete by groups go from shared to global memory");
    }
    if !m.take("mbarrier::complete_tx::bytes") {
        return reject("a bulk copy completes on an mbarrier or by groups");
    }
    // The destination of a load is the block's own shared memory, so both state spaces name the same addresses.
    match (m.take("shared::cluster"), m.take("shared::cta"), m.take("global")) {
        (true, false, true) | (false, true, true) => Ok(Way::Load),
        (true, true, false) => Ok(Way::Pass),
        _ => reject("bulk copies that complete on an mbarrier write shared memory"),
    }
}

impl<'a> Decoder<'a, '_> {
    /// Decodes the modifiers after `cp.async.bulk`.
    pub(super) fn cp_bulk(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>, reduce: bool) -> Decoded {
        if m.take("commit_group") {
            m.finish()?;
            return self.emit(Op::BulkCommit, &[], &[]);
        }
        if m.take("wait_group") {
            let read = m.take("read");
            m.finish()?;
            let keep = constant_operand(i)?.min(1 << 30) as u32;
            return self.emit(Op::BulkWait { keep, read }, &[], &[]);
        }
        if m.take("prefetch") {
            return self.prefetch(i, m);
        }
        let tensor = m.take("tensor");
        let multicast = m.take("multicast::cluster");
        let dims = m.take_of(DIMS);
        let im2col = !m.take("tile") && (m.take("im2col") || m.take("im2col_no_offs"));
        let way = way(m)?;
        ignore_cache_hints(m);
        m.take("noftz");
        let reduce = if reduce {
            let Some(op) = m.take_of(OPERATIONS) else { return reject("operation is missing or unknown") };
            if way != Way::Store {
                return reject("only reductions into global memory are supported");
            }
            Some(op)
        } else {
            None
        };
        let element = if reduce.is_some() && !tensor { Some(m.ty()?) } else { None };
        m.finish()?;
        if let (Some(op), Some(ty)) = (reduce, element)
            && !(allowed(op, ty) && ty.bits() >= 16)
        {
            return reject("operation does not exist for this type");
        }
        match (tensor, dims) {
            (true, Some(dims)) if im2col && dims < 3 => reject("im2col copies have 3 to 5 dimensions"),
            (true, Some(_)) if way == Way::Pass => reject("tensor copies read or write global memory"),
            (true, Some(dims)) => {
                let access = TensorAccess { reduce, multicast, im2col, shared_offset: 0, barrier_offset: 0 };
                self.bulk_tensor(i, dims, way, access)
            }
            (false, None) if im2col => reject("only tensor copies can be im2col copies"),
            (false, None) if !multicast => self.bulk_linear(i, way, reduce.zip(element)),
            (false, None) => reject("only tensor copies to several blocks are supported"),
            _ => reject("the number of dimensions is missing or out of place"),
        }
    }

    fn bulk_linear(&mut self, i: &Instruction<'a>, way: Way, reduce: Option<(AtomOp, Ty)>) -> Decoded {
        let [dst, src, size, rest @ ..] = &i.operands[..] else {
            return reject("takes two addresses and a size");
        };
        let (d, dst_offset, _) = self.address(dst)?;
        let (s, src_offset, _) = self.address(src)?;
        let n = self.src(size, Ty::U32)?;
        match (way, rest) {
            (Way::Load | Way::Pass, [object, ..]) => {
                let (b, barrier_offset, _) = self.address(object)?;
                let from_shared = way == Way::Pass;
                self.meta.own_shared &= !from_shared;
                let op = Op::CopyBulk { dst_offset, src_offset, barrier_offset, from_shared };
                self.emit(op, &[], &[d, s, n, b])
            }
            (Way::Load | Way::Pass, []) => reject("the barrier object is missing"),
            (Way::Store, _) => self.emit(Op::StoreBulk { dst_offset, src_offset, reduce }, &[], &[d, s, n]),
        }
    }

    fn bulk_tensor(&mut self, i: &Instruction<'a>, dims: u8, way: Way, mut access: TensorAccess) -> Decoded {
        let (shared, tensor, object) = match (way, &i.operands[..]) {
            (Way::Load, [dst, tensor, object, ..]) => (dst, tensor, Some(object)),
            (Way::Store, [tensor, src, ..]) => (src, tensor, None),
            _ => return reject("operands are missing"),
        };
        let (shared, shared_offset, _) = self.address(shared)?;
        let (map, coordinates) = self.tensor_operand(tensor, dims)?;
        access.shared_offset = shared_offset;
        let mut sources = vec![shared, map];
        if let Some(object) = object {
            let (slot, offset, _) = self.address(object)?;
            access.barrier_offset = offset;
            sources.push(slot);
        }
        // The offsets of a load stand before the mask of the blocks.
        let has_offsets = access.im2col && way == Way::Load;
        if access.multicast {
            let mask = i.operands.get(3 + usize::from(has_offsets));
            let Some(mask) = mask else { return reject("the mask of blocks is missing") };
            sources.push(self.src(mask, Ty::U16)?);
        }
        sources.extend(coordinates);
        if has_offsets {
            let Some(Operand::Vector(offsets)) = i.operands.get(3) else {
                return reject("the offsets of the pixels are missing");
            };
            if offsets.len() != usize::from(dims) - 2 {
                return reject(format!("takes {} offsets, has {}", dims - 2, offsets.len()));
            }
            sources.extend(self.srcs(offsets, Ty::U16)?);
        }
        let op = if way == Way::Load { Op::TensorLoad(access) } else { Op::TensorStore(access) };
        self.emit(op, &[], &sources)
    }

    /// Decodes `[map, {c0, c1, ..}]`: the address of the tensor map, and the coordinates.
    fn tensor_operand(&mut self, operand: &Operand<'a>, dims: u8) -> Decoded<(Slot, Vec<Slot>)> {
        let Operand::Address { parts: inside, offset: 0 } = operand else {
            return reject("takes a tensor map and coordinates in brackets");
        };
        let [map, coordinates] = &inside[..] else {
            return reject("takes a tensor map and coordinates in brackets");
        };
        let map = self.src(map, Ty::U64)?;
        let coordinates = parts(coordinates);
        if coordinates.len() != usize::from(dims) {
            return reject(format!("takes {dims} coordinates, has {}", coordinates.len()));
        }
        Ok((map, self.srcs(coordinates, Ty::S32)?))
    }

    /// Decodes `tensormap.replace` and `tensormap.cp_fenceproxy`.
    pub(super) fn tensormap(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        if m.take("cp_fenceproxy") {
            m.ignore(&["global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"]);
            m.take_of(SCOPES);
            m.finish()?;
            let [dst, src, Operand::Int(128)] = &i.operands[..] else {
                return reject("takes two addresses and 128 bytes");
            };
            let (d, dst_offset, _) = self.address(dst)?;
            let (s, src_offset, _) = self.address(src)?;
            return self.emit(Op::CopyMap { dst_offset, src_offset }, &[], &[d, s]);
        }
        if !m.take_all(&["replace", "tile"]) {
            return reject("form of tensormap is not supported");
        }
        // The fields of a dimension get its number below.
        let field = m.take_of(&[
            ("global_address", Field::Address),
            ("rank", Field::Rank),
            ("box_dim", Field::BoxDim(0)),
            ("global_dim", Field::Dim(0)),
            ("global_stride", Field::Stride(0)),
            ("element_stride", Field::ElementStride(0)),
            ("elemtype", Field::Element),
            ("interleave_layout", Field::Interleave),
            ("swizzle_mode", Field::Swizzle),
            ("fill_mode", Field::Fill),
        ]);
        let space = take_space(m);
        m.take("b1024");
        let ty = m.last_ty()?;
        let (address, ordinal, value) = match &i.operands[..] {
            [address, value] => (address, 0, value),
            [address, Operand::Int(ordinal), value] => (address, (*ordinal).min(7) as u8, value),
            _ => return reject("takes an address, a dimension where there are several, and a value"),
        };
        let Some(mut field) = field else { return reject("field is missing or unknown") };
        if let Field::BoxDim(at) | Field::Dim(at) | Field::Stride(at) | Field::ElementStride(at) = &mut field
        {
            *at = ordinal;
        }
        let (a, offset, _) = self.address(address)?;
        let value = self.src(value, ty)?;
        self.emit(Op::ReplaceInMap { field, space, offset }, &[], &[a, value])
    }
}
