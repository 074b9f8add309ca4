//! Arrays as the driver describes them.

use crate::driver;
use crate::outcome::check;

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor {
    pub width: u64,
    pub height: u64,
    pub depth: u64,
    pub format: u32,
    pub channels: u32,
    pub flags: u32,
    pub padding: u32,
}

/// The formats of the driver with their bits and kinds.
pub const FORMATS: [(u32, i32, u32); 8] =
    [(1, 8, 1), (2, 16, 1), (3, 32, 1), (8, 8, 0), (9, 16, 0), (10, 32, 0), (0x10, 16, 2), (0x20, 32, 2)];

/// How the driver describes an array.
pub fn descriptor(array: u64) -> Result<Descriptor, u32> {
    let mut found = Descriptor::default();
    check(driver::cuArray3DGetDescriptor_v2((&raw mut found) as u64, array))?;
    Ok(found)
}

/// Bytes of a texel of an array.
pub fn texel_bytes(array: u64) -> Result<u64, u32> {
    let found = descriptor(array)?;
    let bits = FORMATS.iter().find(|(format, ..)| *format == found.format).map_or(0, |(_, bits, _)| *bits);
    Ok(bits as u64 / 8 * u64::from(found.channels))
}
