//! Tensor maps: the arguments of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`, their rules, and the 128 bytes
//! that a kernel passes on.
//!
//! The driver's encoding is opaque. The virtual GPU has its own encoding behind the same call: the host encodes a map
//! here, and a copy instruction of a kernel decodes it again. A mark and a checksum identify bytes that no encoder
//! wrote.
//!
//! Dimension 0 is the innermost. Interleaving is not supported.

mod im2col;
pub mod region;

pub use im2col::Im2col;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Size in bytes of an encoded map.
pub const BYTES: usize = 128;
/// The address of a map must be a multiple of this.
pub const ALIGN: u64 = 64;

/// Maximum number of dimensions.
pub const MAX_RANK: usize = 5;
const MAX_BOX: u32 = 256;
const MAX_ELEMENT_STRIDE: u32 = 8;
const MAX_DIM: u64 = 1 << 32;
const MAX_STRIDE: u64 = 1 << 40;
/// Maximum size of a box in bytes: the shared memory of a multiprocessor. The driver does not check this, so the copy
/// fails.
const MOST_BYTES: u64 = 228 * 1024;
/// Unit of copies in bytes: addresses, strides and rows of a box are multiples of it.
pub const CHUNK: u64 = 16;

/// Type of the elements. A copy depends only on its size, and on whether values out of range can be NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 64-bit integer.
    I64,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// bfloat16.
    Bf16,
}

impl Element {
    const ALL: [Element; 10] = [
        Element::U8,
        Element::U16,
        Element::U32,
        Element::I32,
        Element::U64,
        Element::I64,
        Element::F16,
        Element::F32,
        Element::F64,
        Element::Bf16,
    ];

    /// Size of an element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Element::U8 => 1,
            Element::U16 | Element::F16 | Element::Bf16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Element::F16 | Element::F32 | Element::F64 | Element::Bf16)
    }
}

/// How 16-byte chunks are permuted within rows of shared memory, so that the chunks of a column lie in different banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Swizzle {
    /// Chunks are not permuted.
    #[default]
    None,
    /// Chunks are permuted within 32 bytes.
    B32,
    /// Chunks are permuted within 64 bytes.
    B64,
    /// Chunks are permuted within 128 bytes.
    B128,
}

impl Swizzle {
    /// All swizzles, in the order of their codes.
    pub const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

    /// Number of bytes of a row within which chunks are permuted.
    pub fn span(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// Number of bytes after which the pattern repeats.
    pub fn period(self) -> u32 {
        if self == Swizzle::None { 16 } else { 8 * self.span() }
    }

    /// Returns the shared memory address of the byte that would lie at `address` without the swizzle. The number of the
    /// 128-byte row is combined with the number of the chunk by exclusive or.
    #[inline(always)]
    pub fn place(self, address: u32) -> u32 {
        address ^ (address >> 3 & (self.span() - 1) & !15)
    }

    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Swizzle::None => "no swizzle",
            Swizzle::B32 => "the 32-byte swizzle",
            Swizzle::B64 => "the 64-byte swizzle",
            Swizzle::B128 => "the 128-byte swizzle",
        }
    }
}

/// How much of L2 a copy reads at once. It changes no result, and the virtual GPU does not model it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Promotion {
    /// What the copy needs.
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    #[default]
    B256,
}

impl Promotion {
    /// All promotions, in the order of their codes. The default is 0, because a map that a kernel makes field by field has
    /// no promotion.
    pub const ALL: [Promotion; 4] = [Promotion::B256, Promotion::None, Promotion::B64, Promotion::B128];

    /// Number of bytes; 0 without a promotion.
    pub fn bytes(self) -> u32 {
        match self {
            Promotion::None => 0,
            Promotion::B64 => 64,
            Promotion::B128 => 128,
            Promotion::B256 => 256,
        }
    }
}

/// The value of loaded elements that lie outside the tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    /// Zero.
    #[default]
    Zero,
    /// Not-a-number; only for floating-point elements.
    Nan,
}

/// A tensor in global memory, and the box that one copy moves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorMap {
    /// Type of the elements.
    pub element: Element,
    /// Address of the first element.
    pub address: u64,
    /// Extents, innermost first.
    pub dims: Vec<u64>,
    /// Distance in bytes from one index to the next, for all dimensions except the innermost.
    pub strides: Vec<u64>,
    /// Extents of the box, innermost first.
    pub box_dims: Vec<u32>,
    /// Step in elements between copied elements of the box. The step of dimension 0 has no effect.
    pub element_strides: Vec<u32>,
    /// Permutation of the chunks in shared memory.
    pub swizzle: Swizzle,
    /// Value of elements outside the tensor.
    pub fill: Fill,
    /// How much of L2 a copy reads at once.
    #[serde(default)]
    pub promotion: Promotion,
    /// The pixels of an im2col map. `None` for a tiled map. An im2col map has its channels per pixel as extent 0 of the
    /// box, and 1 as all others.
    #[serde(default)]
    pub im2col: Option<Im2col>,
}

/// A rule of `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` that a map violates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("invalid tensor map: {0}")]
pub struct TensorMapError(pub String);

fn broken<T>(rule: impl Into<String>) -> Result<T, TensorMapError> {
    Err(TensorMapError(rule.into()))
}

impl TensorMap {
    /// A row-major tensor without gaps, with element strides of 1 and no swizzle. `dims` is innermost first.
    pub fn packed(element: Element, address: u64, dims: &[u64], box_dims: &[u32]) -> TensorMap {
        let mut bytes = element.bytes();
        let mut strides = Vec::new();
        for dim in dims.iter().take(dims.len().saturating_sub(1)) {
            bytes *= dim;
            strides.push(bytes);
        }
        TensorMap {
            element,
            address,
            dims: dims.to_vec(),
            strides,
            box_dims: box_dims.to_vec(),
            element_strides: vec![1; dims.len()],
            swizzle: Swizzle::None,
            fill: Fill::Zero,
            promotion: Promotion::default(),
            im2col: None,
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements of the box that are copied along a dimension.
    pub fn copied(&self, dim: usize) -> u32 {
        if dim == 0 { self.box_dims[0] } else { self.box_dims[dim].div_ceil(self.element_strides[dim]) }
    }

    /// Size in bytes of a row of the box.
    pub fn row_bytes(&self) -> u32 {
        self.box_dims[0] * self.element.bytes() as u32
    }

    /// Number of rows of the box, over all dimensions except the innermost.
    pub fn rows(&self) -> u32 {
        match &self.im2col {
            Some(im2col) => im2col.pixels,
            None => (1..self.rank()).map(|dim| self.copied(dim)).product(),
        }
    }

    /// Number of bytes that one copy moves, including those out of range.
    pub fn box_bytes(&self) -> u32 {
        self.row_bytes() * self.rows()
    }

    /// Distance in bytes between rows of the box in shared memory. With a swizzle a row occupies the swizzle's whole
    /// span, even if it is shorter. An H200 does this.
    pub fn pitch(&self) -> u32 {
        if self.swizzle == Swizzle::None { self.row_bytes() } else { self.swizzle.span() }
    }

    /// Number of bytes that the box occupies in shared memory.
    pub fn shared_bytes(&self) -> u32 {
        self.pitch() * self.rows()
    }

    /// Checks the rules of `cuTensorMapEncodeTiled`, or of `cuTensorMapEncodeIm2col`.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let rank = self.rank();
        if rank == 0 || rank > MAX_RANK {
            return broken(format!("it has {rank} dimensions, 1 to {MAX_RANK} are allowed"));
        }
        if self.strides.len() != rank - 1 || self.box_dims.len() != rank || self.element_strides.len() != rank
        {
            return broken(format!(
                "a tensor of {rank} dimensions has {} strides, {rank} box extents and {rank} element strides; given are \
                 {}, {} and {}",
                rank - 1,
                self.strides.len(),
                self.box_dims.len(),
                self.element_strides.len()
            ));
        }
        if !self.address.is_multiple_of(CHUNK) {
            return broken(format!("address {:#x} is not a multiple of 16", self.address));
        }
        for (dim, extent) in self.dims.iter().enumerate() {
            if *extent == 0 || *extent > MAX_DIM {
                return broken(format!("dimension {dim} has extent {extent}, 1 to 2^32 are allowed"));
            }
        }
        for (dim, stride) in self.strides.iter().enumerate() {
            let dim = dim + 1;
            if !stride.is_multiple_of(CHUNK) || *stride >= MAX_STRIDE {
                return broken(format!(
                    "the stride of dimension {dim} is {stride} bytes; it must be a multiple of 16 and below 2^40"
                ));
            }
        }
        for (dim, extent) in self.box_dims.iter().enumerate() {
            if *extent == 0 || *extent > MAX_BOX {
                return broken(format!(
                    "the box has extent {extent} in dimension {dim}, 1 to {MAX_BOX} are allowed"
                ));
            }
        }
        for (dim, stride) in self.element_strides.iter().enumerate() {
            if *stride == 0 || *stride > MAX_ELEMENT_STRIDE {
                return broken(format!(
                    "the element stride of dimension {dim} is {stride}, 1 to {MAX_ELEMENT_STRIDE} are allowed"
                ));
            }
        }
        let row = self.row_bytes();
        if !u64::from(row).is_multiple_of(CHUNK) {
            return broken(format!("a row of the box has {row} bytes; it must be a multiple of 16"));
        }
        if let Some(im2col) = &self.im2col {
            im2col.check(self)?;
        }
        let rows = match &self.im2col {
            Some(im2col) => u64::from(im2col.pixels),
            None => (1..rank).fold(1u64, |rows, dim| rows.saturating_mul(u64::from(self.copied(dim)))),
        };
        let bytes = rows.saturating_mul(u64::from(self.pitch().max(row)));
        if bytes > MOST_BYTES {
            return broken(format!("a box has {bytes} bytes; no block has so much shared memory"));
        }
        if self.swizzle != Swizzle::None && row > self.swizzle.span() {
            return broken(format!(
                "a row of the box has {row} bytes; with {} it may have {}",
                self.swizzle.name(),
                self.swizzle.span()
            ));
        }
        if self.fill == Fill::Nan && !self.element.is_float() {
            return broken("elements out of range can be NaN in floating-point types only");
        }
        Ok(())
    }

    /// Returns the map in the virtual GPU's encoding, if it follows the rules.
    pub fn encode(&self) -> Result<[u8; BYTES], TensorMapError> {
        self.check()?;
        let mut out = [0; BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        let element = Element::ALL.iter().position(|e| *e == self.element).unwrap_or(0) as u8;
        let swizzle = Swizzle::ALL.iter().position(|s| *s == self.swizzle).unwrap_or(0) as u8;
        put(&MARK);
        put(&[self.rank() as u8, element, swizzle, u8::from(self.fill == Fill::Nan)]);
        put(&self.address.to_le_bytes());
        for dim in 0..MAX_RANK {
            put(&self.dims.get(dim).copied().unwrap_or(1).to_le_bytes());
        }
        for dim in 0..MAX_RANK - 1 {
            put(&self.strides.get(dim).copied().unwrap_or(0).to_le_bytes());
        }
        for dim in 0..MAX_RANK {
            put(&(self.box_dims.get(dim).copied().unwrap_or(1) as u16).to_le_bytes());
        }
        for dim in 0..MAX_RANK {
            put(&[self.element_strides.get(dim).copied().unwrap_or(1) as u8]);
        }
        if let Some(im2col) = &self.im2col {
            out[IM2COL] = 1;
            let corners = im2col.lower.iter().chain(&im2col.upper).map(|corner| *corner as i16);
            let words = corners.map(i16::to_le_bytes).chain([(im2col.pixels as u16).to_le_bytes()]);
            for (number, word) in words.enumerate() {
                out[IM2COL + 1 + 2 * number..][..2].copy_from_slice(&word);
            }
        }
        out[PROMOTION] = Promotion::ALL.iter().position(|p| *p == self.promotion).unwrap_or(0) as u8;
        let sum = checksum(&out[..BYTES - 4]);
        out[BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        Ok(out)
    }

    /// Decodes a map. Returns `None` if no encoder wrote these bytes.
    pub fn decode(bytes: &[u8; BYTES]) -> Option<TensorMap> {
        let sum = u32::from_le_bytes(bytes[BYTES - 4..].try_into().ok()?);
        let interleaved = bytes[103] != 0;
        if bytes[..4] != MARK || checksum(&bytes[..BYTES - 4]) != sum || interleaved {
            return None;
        }
        let mut at = 4;
        let mut take = |n: usize| {
            let mut word = [0; 8];
            word[..n].copy_from_slice(&bytes[at..at + n]);
            at += n;
            u64::from_le_bytes(word)
        };
        let rank = take(1) as usize;
        let element = *Element::ALL.get(take(1) as usize)?;
        let swizzle = *Swizzle::ALL.get(take(1) as usize)?;
        let fill = if take(1) == 1 { Fill::Nan } else { Fill::Zero };
        let promotion = *Promotion::ALL.get(usize::from(bytes[PROMOTION]))?;
        let address = take(8);
        let mut dims: Vec<u64> = (0..MAX_RANK).map(|_| take(8)).collect();
        let mut strides: Vec<u64> = (0..MAX_RANK - 1).map(|_| take(8)).collect();
        let mut box_dims: Vec<u32> = (0..MAX_RANK).map(|_| take(2) as u32).collect();
        let mut element_strides: Vec<u32> = (0..MAX_RANK).map(|_| take(1) as u32).collect();
        let im2col = (bytes[IM2COL] == 1 && (3..=MAX_RANK).contains(&rank)).then(|| {
            let word = |number: usize| [bytes[IM2COL + 1 + 2 * number], bytes[IM2COL + 2 + 2 * number]];
            let corner = |number: usize| i32::from(i16::from_le_bytes(word(number)));
            Im2col {
                lower: (0..rank - 2).map(corner).collect(),
                upper: (rank - 2..2 * (rank - 2)).map(corner).collect(),
                pixels: u32::from(u16::from_le_bytes(word(2 * (rank - 2)))),
            }
        });
        dims.truncate(rank);
        strides.truncate(rank.saturating_sub(1));
        box_dims.truncate(rank);
        element_strides.truncate(rank);
        let map = TensorMap {
            element,
            address,
            dims,
            strides,
            box_dims,
            element_strides,
            swizzle,
            fill,
            promotion,
            im2col,
        };
        // A kernel may forge the bytes, and the code that uses a map relies on the rules.
        map.check().is_ok().then_some(map)
    }
}

/// A field of a map that a kernel may change (`tensormap.replace`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Address of the tensor.
    Address,
    /// One less than the number of dimensions.
    Rank,
    /// Extent of the box in a dimension.
    BoxDim(u8),
    /// Extent of the tensor in a dimension.
    Dim(u8),
    /// Stride in bytes of a dimension. 0 is the first dimension after the innermost.
    Stride(u8),
    /// Step in elements of a dimension.
    ElementStride(u8),
    /// Type of the elements.
    Element,
    /// Interleaving mode.
    Interleave,
    /// Swizzle mode.
    Swizzle,
    /// Value of elements outside the tensor.
    Fill,
}

/// Changes a field of an encoded map, or of a map that is built from zeros. The rules are checked when a copy uses the
/// map.
pub fn replace(bytes: &mut [u8; BYTES], field: Field, value: u64) {
    let mut put =
        |at: usize, n: usize, value: u64| bytes[at..at + n].copy_from_slice(&value.to_le_bytes()[..n]);
    let dim = |d: u8| usize::from(d).min(MAX_RANK - 1);
    match field {
        Field::Rank => put(4, 1, value.min(MAX_RANK as u64) + 1),
        // The codes of PTX. The codes of unsupported types become an invalid code.
        Field::Element => put(
            5,
            1,
            match value {
                0..=7 => value,
                9 | 10 => value - 1,
                _ => 0xff,
            },
        ),
        Field::Swizzle => put(6, 1, value.min(0xff)),
        Field::Fill => put(7, 1, value & 1),
        Field::Address => put(8, 8, value),
        Field::Dim(d) => put(16 + 8 * dim(d), 8, value),
        Field::Stride(d) => put(56 + 8 * dim(d).min(MAX_RANK - 2), 8, value),
        Field::BoxDim(d) => put(88 + 2 * dim(d), 2, value.min(0xffff)),
        Field::ElementStride(d) => put(98 + dim(d), 1, value.min(0xff)),
        // Only maps without interleaving are supported.
        Field::Interleave => put(103, 1, value.min(0xff)),
    }
    bytes[..4].copy_from_slice(&MARK);
    let sum = checksum(&bytes[..BYTES - 4]);
    bytes[BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
}

const MARK: [u8; 4] = *b"WTM1";

/// Offset of the mode of an encoded map, which is 1 for im2col. The corners and the number of pixels follow.
const IM2COL: usize = 104;
/// Offset of the code of the promotion, after the mode and its at most seven words.
const PROMOTION: usize = IM2COL + 15;

/// Computes the FNV-1a hash.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
