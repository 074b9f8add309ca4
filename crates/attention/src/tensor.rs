//! Tensors: values on the host in one fixed order, and the encoded, strided bytes that kernels read and write.

use std::fmt;

use serde::{Deserialize, Serialize};
use vgpu::num::codec;

use crate::problem::Dtype;
use op::cores;

/// `[batch, heads, seq, head_dim]`, independent of the order in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of batch entries.
    pub batch: usize,
    /// Number of heads per batch entry.
    pub heads: usize,
    /// Number of sequence positions per head.
    pub seq: usize,
    /// Number of elements per sequence position.
    pub head_dim: usize,
}

impl Shape {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.rows() * self.head_dim
    }

    /// Number of heads of all batch entries; each has a scale.
    pub fn all_heads(&self) -> usize {
        self.batch * self.heads
    }

    /// Number of rows of head_dim elements; each has an LSE.
    pub fn rows(&self) -> usize {
        self.all_heads() * self.seq
    }

    /// Number of elements of one head.
    pub fn head_elements(&self) -> usize {
        self.seq * self.head_dim
    }
}

/// The order of a tensor's axes in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// `[batch, heads, seq, head_dim]`
    #[default]
    Bhsd,
    /// `[batch, seq, heads, head_dim]`, the order of a projection's output.
    Bshd,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 2] = [Layout::Bhsd, Layout::Bshd];

    /// The name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Bhsd => "bhsd",
            Layout::Bshd => "bshd",
        }
    }

    /// The strides of a tensor with this shape.
    pub fn strides(self, shape: Shape) -> Strides {
        let Shape { heads, seq, head_dim, .. } = shape;
        let batch = heads * seq * head_dim;
        match self {
            Layout::Bhsd => Strides { batch, head: seq * head_dim, sequence: head_dim },
            Layout::Bshd => Strides { batch, head: head_dim, sequence: heads * head_dim },
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Distances between neighbours along an axis, in elements. head_dim is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// From one batch entry to the next.
    pub batch: usize,
    /// From one head to the next.
    pub head: usize,
    /// From one sequence position to the next.
    pub sequence: usize,
}

/// Numbers on the host, always in `[batch, heads, seq, head_dim]` order.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// The extents of the axes.
    pub shape: Shape,
    /// The numbers before multiplication with their scales.
    pub data: Vec<f32>,
    /// One scale per head and batch entry; the value is `data * scale`. `None` if every scale is 1. Scales are
    /// separate because the product is not always an f32, and the oracle must not round where kernels do not.
    pub scales: Option<Vec<f32>>,
}

impl Values {
    /// The numbers of one head, row by row, without its scale.
    pub fn head(&self, batch: usize, head: usize) -> &[f32] {
        let elements = self.shape.head_elements();
        let first = (batch * self.shape.heads + head) * elements;
        &self.data[first..first + elements]
    }

    /// The scale of one head.
    pub fn scale(&self, batch: usize, head: usize) -> f64 {
        self.scales.as_ref().map_or(1.0, |scales| f64::from(scales[batch * self.shape.heads + head]))
    }
}

/// The contents of outputs before a kernel writes them: a NaN in fp16, in bf16 and (twice) in fp32, with a payload
/// that no instruction produces. An element that was never written therefore differs from a computed NaN.
pub const POISON: u16 = 0x7fa5;

/// The poison as the word that fills a buffer.
pub const POISON_WORD: u32 = 0x7fa5_7fa5;

/// `bytes` bytes of poison.
pub fn poison(bytes: usize) -> Vec<u8> {
    let mut poison = POISON.to_le_bytes().repeat(bytes.div_ceil(2));
    poison.truncate(bytes);
    poison
}

/// A tensor as stored in a device's memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The extents of the axes.
    pub shape: Shape,
    /// The order of the axes in memory.
    pub layout: Layout,
    /// The type of the elements.
    pub dtype: Dtype,
    /// The encoded elements, little-endian, in the order of `layout`.
    pub bytes: Vec<u8>,
    /// For FP8 only; see [`Values::scales`].
    pub scales: Option<Vec<f32>>,
}

impl Tensor {
    /// Rounds every number to the type, to nearest even, and stores it in the layout. `scales` are copied: the
    /// numbers are those before scaling.
    pub fn encode(values: &Values, dtype: Dtype, layout: Layout) -> Self {
        let shape = values.shape;
        let row_bytes = shape.head_dim * dtype.bytes();
        let mut bytes = vec![0; shape.rows() * row_bytes];
        cores::each(bytes.chunks_mut(ROWS_AT_ONCE * row_bytes).enumerate().collect(), |(index, piece)| {
            for (offset, into) in piece.chunks_exact_mut(row_bytes).enumerate() {
                let first = row_at(shape, layout, index * ROWS_AT_ONCE + offset) * shape.head_dim;
                encode_row(dtype, &values.data[first..first + shape.head_dim], into);
            }
        });
        Tensor { shape, layout, dtype, bytes, scales: values.scales.clone() }
    }

    /// An output that is not written yet.
    pub fn poisoned(shape: Shape, dtype: Dtype, layout: Layout) -> Self {
        let bytes = poison(shape.elements() * dtype.bytes());
        Tensor { shape, layout, dtype, bytes, scales: None }
    }

    /// Whether an element still contains the poison; `index` is in `[batch, heads, seq, head_dim]` order.
    pub fn is_poison(&self, index: usize) -> bool {
        let (row, column) = (index / self.shape.head_dim, index % self.shape.head_dim);
        let place = row_place(self.shape, self.layout, row) + column;
        let width = self.dtype.bytes();
        self.bytes.get(place * width..(place + 1) * width) == Some(&POISON.to_le_bytes()[..width])
    }

    /// The exact numbers.
    pub fn decode(&self) -> Values {
        let shape = self.shape;
        let row_bytes = shape.head_dim * self.dtype.bytes();
        let mut data = vec![0.0; shape.elements()];
        let pieces = data.chunks_mut(ROWS_AT_ONCE * shape.head_dim).enumerate().collect();
        cores::each(pieces, |(index, piece)| {
            for (offset, numbers) in piece.chunks_exact_mut(shape.head_dim).enumerate() {
                let row = index * ROWS_AT_ONCE + offset;
                let place = row_place(shape, self.layout, row) * self.dtype.bytes();
                decode_row(self.dtype, &self.bytes[place..place + row_bytes], numbers);
            }
        });
        Values { shape, data, scales: self.scales.clone() }
    }
}

/// Number of rows that one thread encodes or decodes at a time.
const ROWS_AT_ONCE: usize = 1024;

/// The index of the row, in `[batch, heads, seq]` order, that is stored at a place, counted in rows.
fn row_at(shape: Shape, layout: Layout, place: usize) -> usize {
    let Shape { heads, seq, .. } = shape;
    match layout {
        Layout::Bhsd => place,
        Layout::Bshd => {
            let (position, head) = (place / heads, place % heads);
            (position / seq * heads + head) * seq + position % seq
        }
    }
}

/// The element in memory at which a row starts; `row` is in `[batch, heads, seq]` order.
fn row_place(shape: Shape, layout: Layout, row: usize) -> usize {
    let strides = layout.strides(shape);
    let (all_head, position) = (row / shape.seq, row % shape.seq);
    let (batch, head) = (all_head / shape.heads, all_head % shape.heads);
    batch * strides.batch + head * strides.head + position * strides.sequence
}

fn encode_row(dtype: Dtype, numbers: &[f32], into: &mut [u8]) {
    let halves = |into: &mut [u8], code: fn(f32) -> u32| {
        for (bytes, &number) in into.chunks_exact_mut(2).zip(numbers) {
            bytes.copy_from_slice(&(code(number) as u16).to_le_bytes());
        }
    };
    match dtype {
        Dtype::Fp16 => halves(into, codec::f32_to_f16_rn),
        Dtype::Bf16 => halves(into, codec::f32_to_bf16_rn),
        Dtype::E4m3 => {
            for (byte, &number) in into.iter_mut().zip(numbers) {
                *byte = codec::f32_to_e4m3(number);
            }
        }
    }
}

fn decode_row(dtype: Dtype, from: &[u8], numbers: &mut [f32]) {
    let halves = |numbers: &mut [f32], value: fn(u32) -> f32| {
        for (number, bytes) in numbers.iter_mut().zip(from.chunks_exact(2)) {
            *number = value(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])));
        }
    };
    match dtype {
        Dtype::Fp16 => halves(numbers, codec::f16_to_f32),
        Dtype::Bf16 => halves(numbers, codec::bf16_to_f32),
        Dtype::E4m3 => {
            for (number, &byte) in numbers.iter_mut().zip(from) {
                *number = codec::e4m3_to_f32(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { batch: 2, heads: 3, seq: 5, head_dim: 4 };

    fn counting() -> Values {
        let data = (0..SHAPE.elements()).map(|i| i as f32).collect();
        Values { shape: SHAPE, data, scales: None }
    }

    #[test]
    fn strides_match_the_order_of_the_axes() {
        assert_eq!(Layout::Bhsd.strides(SHAPE), Strides { batch: 60, head: 20, sequence: 4 });
        assert_eq!(Layout::Bshd.strides(SHAPE), Strides { batch: 60, head: 4, sequence: 12 });
    }

    #[test]
    fn representable_numbers_survive_every_layout_and_type() {
        for layout in Layout::ALL {
            for dtype in [Dtype::Fp16, Dtype::Bf16] {
                assert_eq!(
                    Tensor::encode(&counting(), dtype, layout).decode(),
                    counting(),
                    "{layout} {dtype}"
                );
            }
        }
        // 0..=16 are exact in E4M3.
        let small = Values { data: (0..SHAPE.elements()).map(|i| (i % 17) as f32).collect(), ..counting() };
        assert_eq!(Tensor::encode(&small, Dtype::E4m3, Layout::Bshd).decode(), small);
    }

    #[test]
    fn in_layout_bshd_heads_are_adjacent() {
        let tensor = Tensor::encode(&counting(), Dtype::Fp16, Layout::Bshd);
        // Memory [batch 0][position 0]: the first rows of heads 0, 1 and 2.
        let mut first = [0.0; 12];
        decode_row(Dtype::Fp16, &tensor.bytes[..24], &mut first);
        assert_eq!(first, [0.0, 1.0, 2.0, 3.0, 20.0, 21.0, 22.0, 23.0, 40.0, 41.0, 42.0, 43.0]);
    }
}
