//! The buffers that a launch needs in device memory, before they have addresses.

use std::sync::Arc;

use family::TensorBox;
use random::Random;
use vgpu::TensorMap;
use vgpu::tensor_map::{Element, Fill, Promotion, Swizzle};

/// A buffer with contents that the kernel must not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The input's name: `q`.
    pub name: String,
    /// The contents. Large tensors are shared, not copied.
    pub bytes: Arc<Vec<u8>>,
    /// Size in bits of an element whose sign may be flipped: 8, 16 or 32, with the sign in the top bit. 0 if the bytes
    /// must not change, because they are an index or a scale.
    pub sign_bits: u32,
}

/// A buffer for a result. It is filled with `blank` before the launch: a word that no correct answer contains, so that
/// elements that were not written are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The output's name: `o`.
    pub name: String,
    /// Size in bytes.
    pub bytes: usize,
    /// The word that fills the buffer.
    pub blank: u32,
    /// Size of an element in bits; the sign is the top bit.
    pub sign_bits: u32,
    /// What the kernel reads from the buffer before it writes it; `None` if it only writes it.
    pub initial: Option<Arc<Vec<u8>>>,
}

/// In an answer with flipped signs, one element in this many also gets another magnitude.
const DISTURBED: i64 = 8;

impl Output {
    /// Returns the bytes with the sign of every element flipped, and with another bit flipped in one element of
    /// [`DISTURBED`], by the seed.
    pub(crate) fn turned(&self, bytes: &[u8], seed: u64) -> Vec<u8> {
        let width = (self.sign_bits / 8).max(1) as usize;
        let mut random = Random::new(seed);
        let mut turned = bytes.to_vec();
        for element in turned.chunks_exact_mut(width) {
            let is_disturbed = random.integer(0, DISTURBED) == 0;
            // The bits 1 to 4 of the top byte belong to the exponent of every type, or to the number of an integer.
            element[width - 1] ^= if is_disturbed { 0x88 } else { 0x80 };
        }
        turned
    }
}

/// The shape of a buffer that a kernel may copy in boxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorShape {
    /// The name of the buffer.
    pub name: String,
    /// The type of the elements.
    pub element: Element,
    /// Extents, innermost first.
    pub dims: Vec<u64>,
    /// Distance in bytes from one index to the next, for all dimensions except the innermost.
    pub strides: Vec<u64>,
}

impl TensorShape {
    /// The tensor map of the buffer at an address, with boxes that a family asks for.
    pub fn map(&self, address: u64, wanted: &TensorBox) -> TensorMap {
        let extents = wanted.extents.iter().copied().chain(std::iter::repeat(1));
        let swizzle = Swizzle::ALL.into_iter().find(|swizzle| swizzle.span() == wanted.swizzle_bytes);
        let promotion = Promotion::ALL.into_iter().find(|it| it.bytes() == wanted.promotion_bytes);
        TensorMap {
            element: self.element,
            address,
            dims: self.dims.clone(),
            strides: self.strides.clone(),
            // A box with more extents than the tensor has dimensions is refused when the map is encoded.
            box_dims: extents.take(self.dims.len().max(wanted.extents.len())).collect(),
            element_strides: vec![1; self.dims.len()],
            swizzle: swizzle.unwrap_or_default(),
            fill: Fill::Zero,
            promotion: promotion.unwrap_or_default(),
            im2col: None,
        }
    }
}

/// The buffers of one launch of an op on a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// The buffers that the kernel reads.
    pub inputs: Vec<Input>,
    /// The buffers that the kernel writes.
    pub outputs: Vec<Output>,
    /// The shapes of those buffers that are tensors, for families that ask for tensor maps.
    pub tensors: Vec<TensorShape>,
}

impl Arrangement {
    /// Total size of all buffers in bytes.
    pub fn bytes(&self) -> u64 {
        let inputs = self.inputs.iter().map(|input| input.bytes.len());
        let outputs = self.outputs.iter().map(|output| output.bytes);
        inputs.chain(outputs).sum::<usize>() as u64
    }
}

/// The addresses of an arrangement's buffers, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The name and the device address of each input.
    pub inputs: Vec<(String, u64)>,
    /// The name and the device address of each output.
    pub outputs: Vec<(String, u64)>,
    /// 0 if the family needs no workspace.
    pub workspace: u64,
    /// The name and the device address of each buffer in the workspace.
    pub scratch: Vec<(String, u64)>,
}

impl Addresses {
    /// The address of a buffer of the arrangement or of the workspace, or 0 (a null pointer) if none has that name.
    pub fn address(&self, name: &str) -> u64 {
        let all = self.inputs.iter().chain(&self.outputs).chain(&self.scratch);
        all.into_iter().find(|(known, _)| known == name).map_or(0, |(_, address)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_map_has_the_box_that_the_family_wants() {
        let shape = TensorShape {
            name: "k".to_owned(),
            element: Element::F16,
            dims: vec![128, 70, 2, 3],
            strides: vec![256, 70 * 256, 140 * 256],
        };
        let wanted = |extents: &[u32]| TensorBox {
            tensor: "k".into(),
            extents: extents.to_vec(),
            swizzle_bytes: 128,
            promotion_bytes: 64,
        };
        let map = shape.map(4096, &wanted(&[64, 80]));
        assert_eq!(map.check(), Ok(()));
        assert_eq!((map.address, map.box_dims, map.swizzle), (4096, vec![64, 80, 1, 1], Swizzle::B128));
        assert_eq!(map.promotion, Promotion::B64);
        assert!(shape.map(4096, &wanted(&[64, 1, 1, 1, 1])).check().is_err(), "more extents than dimensions");
        assert!(shape.map(4096, &wanted(&[128, 80])).check().is_err(), "rows longer than the swizzle");
    }

    #[test]
    fn a_turned_answer_is_wrong_everywhere_and_some_magnitudes_are_wrong_too() {
        for width in [1, 2, 4, 8] {
            let output =
                Output { name: "o".to_owned(), bytes: 0, blank: 0, sign_bits: 8 * width, initial: None };
            let width = width as usize;
            let answer: Vec<u8> = (0..800 * width).map(|index| (index * 7) as u8).collect();
            let turned = output.turned(&answer, 3);
            let mut disturbed = 0;
            for (before, after) in answer.chunks_exact(width).zip(turned.chunks_exact(width)) {
                assert_eq!(before[..width - 1], after[..width - 1]);
                match before[width - 1] ^ after[width - 1] {
                    0x80 => {}
                    0x88 => disturbed += 1,
                    other => panic!("{other:#x}"),
                }
            }
            assert!((60..150).contains(&disturbed), "{disturbed}");
            assert_ne!(turned, output.turned(&answer, 4));
        }
    }
}
