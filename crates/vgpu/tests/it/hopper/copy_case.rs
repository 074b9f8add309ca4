//! Random tensor copies and their expected results. The parity tests also use them.

use random::Random;
use vgpu::TensorMap;
use vgpu::tensor_map::{Element, Fill, Promotion, Swizzle};

/// A random tensor, its box and the coordinates of a copy.
pub struct Case {
    pub map: TensorMap,
    pub at: Vec<i32>,
    /// Size of the tensor in global memory, in bytes.
    pub bytes: usize,
    /// Offset of the box in shared memory. `shared` is the size of shared memory in bytes.
    pub offset: u32,
    pub shared: u32,
}

/// Returns a random case. The caller must set `map.address`. Only loads may start before the tensor.
pub fn random_case(r: &mut Random, load: bool) -> Case {
    let rank = r.integer(1, 6) as usize;
    let elements =
        [Element::U8, Element::U16, Element::F16, Element::Bf16, Element::F32, Element::I32, Element::F64];
    let element = elements[r.integer(0, 7) as usize];
    let swizzle = Swizzle::ALL[r.integer(0, 4) as usize];
    let size = element.bytes();
    let per_chunk = 16 / size as i64;
    let most = if swizzle == Swizzle::None { 256 / per_chunk } else { i64::from(swizzle.span()) / 16 };
    let inner = per_chunk * r.integer(1, most.min(16) + 1);
    let (mut box_dims, mut element_strides) = (vec![inner as u32], vec![1]);
    let mut rows = 1;
    for _ in 1..rank {
        let extent = r.integer(1, (256 / rows).min(24) + 1);
        let stride = if r.integer(0, 4) == 0 { r.integer(1, 4) } else { 1 };
        rows *= (extent + stride - 1) / stride;
        box_dims.push(extent as u32);
        element_strides.push(stride as u32);
    }
    // The extents are close to those of the box, so that copies are inside, outside and across the edge of the
    // tensor.
    let dims: Vec<u64> = box_dims.iter().map(|b| (i64::from(*b) + r.integer(-4, 9)).max(1) as u64).collect();
    let mut strides = Vec::new();
    let mut stride = dims[0] * size;
    for dim in 1..rank {
        stride = stride.next_multiple_of(16) + 16 * r.integer(0, 3) as u64;
        strides.push(stride);
        stride *= dims[dim];
    }
    let mut at: Vec<i32> =
        box_dims.iter().map(|b| r.integer(-i64::from(*b) / 2 - 1, i64::from(*b) / 2 + 2) as i32).collect();
    at[0] -= at[0] % per_chunk as i32;
    if !load {
        for coordinate in &mut at {
            *coordinate = coordinate.abs();
        }
    }
    let fill = if matches!(element, Element::U8 | Element::U16 | Element::I32) || r.integer(0, 3) > 0 {
        Fill::Zero
    } else {
        Fill::Nan
    };
    let map = TensorMap {
        element,
        address: 0,
        dims,
        strides,
        box_dims,
        element_strides,
        swizzle,
        fill,
        promotion: Promotion::default(),
        im2col: None,
    };
    let offset = 128 * r.integer(0, 9) as u32;
    let shared = (offset + map.shared_bytes()).next_multiple_of(1024);
    Case { bytes: stride.next_multiple_of(16) as usize, at, offset, shared, map }
}

/// Computes a copy element by element, as the manual describes it: the index in the box, then the coordinates, then
/// the address. The position in shared memory is that in the packed box, with chunks exchanged by the swizzle. Calls
/// `each(shared offset, global offset, bytes)`.
fn reference(case: &Case, mut each: impl FnMut(u32, Option<u64>, u32)) {
    let map = &case.map;
    let size = map.element.bytes() as u32;
    let counts: Vec<u32> = (0..map.rank())
        .map(|d| if d == 0 { map.box_dims[0] } else { map.box_dims[d].div_ceil(map.element_strides[d]) })
        .collect();
    let total: u32 = counts.iter().product();
    for number in 0..total {
        let mut left = number;
        let mut inside = true;
        let mut address = 0u64;
        for d in 0..map.rank() {
            let step = if d == 0 { 1 } else { map.element_strides[d] };
            let index = i64::from(case.at[d]) + i64::from(left % counts[d] * step);
            left /= counts[d];
            inside &= index >= 0 && index < map.dims[d] as i64;
            let stride = if d == 0 { u64::from(size) } else { map.strides[d - 1] };
            address = address.wrapping_add((index as u64).wrapping_mul(stride));
        }
        let (row, column) = (number / map.box_dims[0], number % map.box_dims[0]);
        let linear = case.offset + row * map.pitch() + column * size;
        let (line, chunk) = (linear / 128, linear / 16 % 8);
        let exchanged = match map.swizzle {
            Swizzle::None => chunk,
            Swizzle::B32 => chunk ^ (line & 1),
            Swizzle::B64 => chunk ^ (line & 3),
            Swizzle::B128 => chunk ^ (line & 7),
        };
        each(line * 128 + exchanged * 16 + linear % 16, inside.then_some(address), size);
    }
}

impl Case {
    /// Returns the parameters of the kernel for this case.
    pub fn parameters(&self, map: &[u8], pointer: u64) -> Vec<Vec<u8>> {
        let mut parameters = vec![map.to_vec(), pointer.to_le_bytes().to_vec()];
        for word in [self.offset, self.map.box_bytes(), self.shared] {
            parameters.push(word.to_le_bytes().to_vec());
        }
        parameters.extend(self.at.iter().map(|c| c.to_le_bytes().to_vec()));
        parameters
    }

    /// Returns the contents of shared memory after a load of `data`. Shared memory held 0xee before.
    pub fn loaded(&self, data: &[u8]) -> Vec<u8> {
        let mut wanted = vec![0xee; self.shared as usize];
        reference(self, |at, from, size| {
            let (at, n) = (at as usize, size as usize);
            let fill = if self.map.fill == Fill::Nan { nan(size) } else { vec![0; n] };
            let value = from.map_or(&fill[..], |from| &data[from as usize..from as usize + n]);
            wanted[at..at + n].copy_from_slice(value);
        });
        wanted
    }

    /// Returns the contents of the tensor after a store of shared memory. A store writes whole 16-byte chunks.
    pub fn stored(&self, shared: &[u8], before: &[u8]) -> Vec<u8> {
        let mut wanted = before.to_vec();
        let per_chunk = 16 / self.map.element.bytes();
        let mut whole = self.map.clone();
        whole.dims[0] = whole.dims[0].next_multiple_of(per_chunk);
        reference(&Case { map: whole, at: self.at.clone(), ..*self }, |at, to, size| {
            if let Some(to) = to {
                let (at, to, n) = (at as usize, to as usize, size as usize);
                wanted[to..to + n].copy_from_slice(&shared[at..at + n]);
            }
        });
        wanted
    }
}

pub fn random_bytes(r: &mut Random, n: usize) -> Vec<u8> {
    (0..n.div_ceil(8)).flat_map(|_| r.bits().to_le_bytes()).take(n).collect()
}

/// All types have the same NaN.
fn nan(size: u32) -> Vec<u8> {
    (0..size).map(|byte| if byte % 2 == 0 { 0xf7 } else { 0x7f }).collect()
}
