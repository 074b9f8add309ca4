//! Tensor maps, which describe tensors to bulk copies.

use vgpu::TensorMap;
use vgpu::tensor_map::{Element, Fill, Promotion, Swizzle};

use execlog::HostKind;

use crate::errors::{Outcome, Status};
use crate::guest;
use crate::{State, usable};

fn element(number: u32) -> Result<Element, Status> {
    Ok(match number {
        0 => Element::U8,
        1 => Element::U16,
        2 => Element::U32,
        3 => Element::I32,
        4 => Element::U64,
        5 => Element::I64,
        6 => Element::F16,
        7 => Element::F32,
        8 => Element::F64,
        9 => Element::Bf16,
        10..=15 => return Err(crate::missing::unsupported("tensor maps of TF32, FTZ and packed types")),
        _ => return Err(Status::INVALID_VALUE),
    })
}

fn promotion(number: u32) -> Result<Promotion, Status> {
    let all = [Promotion::None, Promotion::B64, Promotion::B128, Promotion::B256];
    all.get(number as usize).copied().ok_or(Status::INVALID_VALUE)
}

fn encode(state: &mut State, map: &TensorMap, into: *mut [u8; 128]) -> Outcome {
    match map.encode() {
        Ok(bytes) => {
            let bytes: &[u8] = &bytes;
            guest::write_many(into.cast::<u8>(), bytes)
        }
        Err(error) => {
            state.report(HostKind::ApiError, error.to_string());
            Err(Status::INVALID_VALUE)
        }
    }
}

api! {
    fn cuTensorMapEncodeTiled(
        into: *mut [u8; 128], kind: u32, rank: u32, address: u64, dims: *const u64, strides: *const u64,
        box_dims: *const u32, element_strides: *const u32, interleave: u32, swizzle: u32, l2: u32, fill: u32,
    ) {
        let mut state = usable()?;
        if rank == 0 || rank > 5 {
            return Err(Status::INVALID_VALUE);
        }
        if interleave != 0 {
            return Err(crate::missing::unsupported("interleaved tensor maps"));
        }
        let rank = rank as usize;
        let map = TensorMap {
            element: element(kind)?,
            address,
            dims: guest::read_many(dims, rank)?,
            strides: guest::read_many(strides, rank - 1)?,
            box_dims: guest::read_many(box_dims, rank)?,
            element_strides: guest::read_many(element_strides, rank)?,
            swizzle: *Swizzle::ALL.get(swizzle as usize).ok_or(Status::INVALID_VALUE)?,
            fill: if fill == 0 { Fill::Zero } else { Fill::Nan },
            promotion: promotion(l2)?,
            im2col: None,
        };
        encode(&mut state, &map, into)
    }

    fn cuTensorMapReplaceAddress(map: *mut [u64; 16], address: u64) {
        drop(usable()?);
        let mut bytes: [u64; 16] = guest::read(map)?;
        if !address.is_multiple_of(16) {
            return Err(Status::INVALID_VALUE);
        }
        bytes[0] = address;
        guest::write(map, bytes)
    }
}
