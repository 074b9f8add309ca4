//! Decodes texture fetches: `tex`, `tex.level` and `tld4` with a texture object.

use super::decode::{Decoded, Decoder, Fidelity, Mods, reject};
use super::op::{Op, Slot, TextureFetch};
use super::types::Ty;
use crate::ptx::ast::{Instruction, Operand};
use crate::texture::Shape;

const SHAPES: &[(&str, Shape)] = &[
    ("1d", Shape::D1),
    ("2d", Shape::D2),
    ("3d", Shape::D3),
    ("a1d", Shape::Layered1),
    ("a2d", Shape::Layered2),
];

impl<'a> Decoder<'a, '_> {
    /// Decodes `tex` and `tex.level`.
    pub(super) fn texture(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let has_level = m.take("level");
        let mut fetch = fetch(m)?;
        // Without mipmaps a texture has one level, and every level operand selects it.
        let wanted = if has_level { 3 } else { 2 };
        if i.operands.len() != wanted {
            return reject(format!(
                "takes {wanted} operands, has {}: offsets and comparisons are not supported",
                i.operands.len()
            ));
        }
        fetch.has_level = has_level;
        let level = i.operands.get(2).map(|level| self.src(level, fetch.coordinate_type())).transpose()?;
        self.emit_fetch(i, fetch, level)
    }

    /// Decodes `tld4`, which returns one component of the four texels that a bilinear filter reads.
    pub(super) fn gather(&mut self, i: &Instruction<'a>, m: &mut Mods<'a>) -> Decoded {
        let component = m.take_of(&[("r", 0), ("g", 1), ("b", 2), ("a", 3)]);
        let mut fetch = fetch(m)?;
        fetch.gather = component;
        if component.is_none() || fetch.shape.rank() != 2 || !fetch.float_coordinates {
            return reject("a gather has a component, a 2D texture and f32 coordinates");
        }
        if i.operands.len() != 2 {
            return reject("takes 2 operands: offsets and comparisons are not supported");
        }
        self.emit_fetch(i, fetch, None)
    }

    fn emit_fetch(&mut self, i: &Instruction<'a>, fetch: TextureFetch, level: Option<Slot>) -> Decoded {
        // The precision of a filter is not specified. Integer coordinates are never filtered.
        if fetch.float_coordinates && fetch.returns_floats {
            self.fidelity = Fidelity::Approximate;
        }
        let ty = if fetch.returns_floats { Ty::F32 } else { Ty::S32 };
        let Some(Operand::Vector(results)) = i.operands.first().filter(|it| vector_len(it) == Some(4)) else {
            return reject("the result has four registers");
        };
        let results = self.dsts(results, ty)?;
        let Some(Operand::Address { parts, offset: 0 }) = i.operands.get(1) else {
            return reject("takes a texture and coordinates in brackets");
        };
        let (handle, coordinates) = match &parts[..] {
            [handle, Operand::Vector(coordinates)] => (handle, &coordinates[..]),
            [handle, one] if !matches!(one, Operand::Vector(_)) => (handle, std::slice::from_ref(one)),
            [_, _, _] => return reject("a texture with a separate sampler is not supported"),
            _ => return reject("takes a texture and coordinates in brackets"),
        };
        let mut sources = vec![self.src(handle, Ty::U64).map_err(|mut error| {
            error.0 += "; only texture objects are supported, not `.texref` variables";
            error
        })?];
        let has_layer = fetch.shape.is_layered();
        let count = fetch.shape.rank() + usize::from(has_layer);
        // Three operands are written as four, and the last one has no meaning.
        if coordinates.len() != count && (count, coordinates.len()) != (3, 4) {
            return reject(format!("takes {count} coordinates, has {}", coordinates.len()));
        }
        for (number, coordinate) in coordinates.iter().take(count).enumerate() {
            let ty = if has_layer && number == 0 { Ty::U32 } else { fetch.coordinate_type() };
            sources.push(self.src(coordinate, ty)?);
        }
        sources.extend(level);
        self.emit(Op::Texture(fetch), &results, &sources)
    }
}

fn vector_len(operand: &Operand<'_>) -> Option<usize> {
    match operand {
        Operand::Vector(parts) => Some(parts.len()),
        _ => None,
    }
}

/// The shape and types of a fetch.
fn fetch(m: &mut Mods<'_>) -> Decoded<TextureFetch> {
    let Some(shape) = m.take_of(SHAPES) else {
        return reject("only 1D, 2D, 3D and layered textures are supported, and no mipmaps");
    };
    let is_vector = m.take("v4");
    let (result, coordinate) = (m.ty()?, m.ty()?);
    m.finish()?;
    if !is_vector || !matches!(result, Ty::F32 | Ty::S32 | Ty::U32) {
        return reject("a fetch returns four values of type f32, s32 or u32");
    }
    if !matches!(coordinate, Ty::F32 | Ty::S32) {
        return reject("coordinates have the type f32 or s32");
    }
    Ok(TextureFetch {
        shape,
        returns_floats: result == Ty::F32,
        float_coordinates: coordinate == Ty::F32,
        gather: None,
        has_level: false,
    })
}

impl TextureFetch {
    fn coordinate_type(self) -> Ty {
        if self.float_coordinates { Ty::F32 } else { Ty::S32 }
    }
}
