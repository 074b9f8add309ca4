//! CUDA arrays, channel descriptors and texture objects.

use crate::api::{INVALID_VALUE, Outcome, check, read, write};
use crate::copies::{ArrayEnd, copy_array};
use crate::driver;
use crate::memory::Extent;
use crate::texels::{Descriptor, FORMATS, descriptor, texel_bytes};

/// `cudaChannelFormatDesc`: bits of the channels x, y, z and w, and their kind (0 signed, 1 unsigned, 2 float).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChannelDescriptor {
    bits: [i32; 4],
    kind: u32,
}

impl ChannelDescriptor {
    /// The driver's format, and the number of channels.
    fn format(&self) -> Result<(u32, u32), u32> {
        let channels = self.bits.iter().take_while(|bits| **bits > 0).count() as u32;
        let found = FORMATS.iter().find(|(_, bits, kind)| *bits == self.bits[0] && *kind == self.kind);
        match found {
            Some((format, ..)) if matches!(channels, 1 | 2 | 4) => Ok((*format, channels)),
            _ => Err(20), // cudaErrorInvalidChannelDescriptor
        }
    }
}

fn create(place: *mut u64, descriptor: *const ChannelDescriptor, extent: Extent, flags: u32) -> Outcome {
    let (format, channels) = read(descriptor)?.format()?;
    let Extent { width, height, depth } = extent;
    let descriptor = Descriptor { width, height, depth, format, channels, flags, padding: 0 };
    check(driver::cuArray3DCreate_v2(place, (&raw const descriptor) as u64))
}

/// `cudaResourceDesc`: the union as words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Resource {
    kind: u32,
    padding: u32,
    words: [u64; 7],
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct TextureDescriptor {
    address: [u32; 3],
    filter: u32,
    read: u32,
    srgb: u32,
    border: [f32; 4],
    normalised: u32,
}

fn channel_of(words: &[u64]) -> ChannelDescriptor {
    let half = |index: usize| (words[index / 2] >> (32 * (index % 2))) as i32;
    ChannelDescriptor { bits: [half(0), half(1), half(2), half(3)], kind: half(4) as u32 }
}

/// The resource in the driver's form: kind, union, flags.
fn driver_resource(resource: &Resource) -> Result<[u64; 18], u32> {
    let mut found = [0; 18];
    found[0] = u64::from(resource.kind);
    match resource.kind {
        0 | 1 => found[1] = resource.words[0],
        // Linear: address, channels, bytes. Pitched: address, channels, width, height, pitch.
        2 | 3 => {
            let (format, channels) = channel_of(&resource.words[1..]).format()?;
            found[1] = resource.words[0];
            found[2] = u64::from(format) | u64::from(channels) << 32;
            // The descriptor has 20 bytes, and the next field begins at a multiple of 8.
            found[3..6].copy_from_slice(&resource.words[4..7]);
        }
        _ => return Err(INVALID_VALUE),
    }
    Ok(found)
}

/// `cudaCreateChannelDesc` of the runtime API.
#[unsafe(no_mangle)]
pub extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: u32) -> ChannelDescriptor {
    ChannelDescriptor { bits: [x, y, z, w], kind }
}

runtime! {
    fn cudaMallocArray(place: *mut u64, descriptor: *const ChannelDescriptor, width: u64, height: u64, flags: u32) {
        create(place, descriptor, Extent { width, height, depth: 0 }, flags)
    }

    fn cudaMalloc3DArray(place: *mut u64, descriptor: *const ChannelDescriptor, extent: Extent, flags: u32) {
        create(place, descriptor, extent, flags)
    }

    fn cudaFreeArray(array: u64) {
        if array == 0 {
            return Ok(());
        }
        check(driver::cuArrayDestroy(array))
    }

    fn cudaArrayGetInfo(channels: *mut ChannelDescriptor, extent: *mut Extent, flags: *mut u32, array: u64) {
        let found = descriptor(array)?;
        let format = FORMATS.iter().find(|(format, ..)| *format == found.format);
        let (_, bits, kind) = format.ok_or(INVALID_VALUE)?;
        let of = |index: u32| if index < found.channels { *bits } else { 0 };
        if !channels.is_null() {
            write(channels, ChannelDescriptor { bits: [of(0), of(1), of(2), of(3)], kind: *kind })?;
        }
        if !extent.is_null() {
            write(extent, Extent { width: found.width, height: found.height, depth: found.depth })?;
        }
        if flags.is_null() { Ok(()) } else { write(flags, found.flags) }
    }

    fn cudaGetChannelDesc(channels: *mut ChannelDescriptor, array: u64) {
        let found = descriptor(array)?;
        let format = FORMATS.iter().find(|(format, ..)| *format == found.format);
        let (_, bits, kind) = format.ok_or(INVALID_VALUE)?;
        let of = |index: u32| if index < found.channels { *bits } else { 0 };
        write(channels, ChannelDescriptor { bits: [of(0), of(1), of(2), of(3)], kind: *kind })
    }

    fn cudaMemcpy2DToArray(
        array: u64, x: u64, y: u64, from: u64, pitch: u64, width: u64, height: u64, kind: u32,
    ) {
        copy_array(ArrayEnd { array, x, y, is_target: true }, (from, pitch), width, height, kind, None)
    }

    fn cudaMemcpy2DToArrayAsync(
        array: u64, x: u64, y: u64, from: u64, pitch: u64, width: u64, height: u64, kind: u32, stream: u64,
    ) {
        copy_array(ArrayEnd { array, x, y, is_target: true }, (from, pitch), width, height, kind, Some(stream))
    }

    fn cudaMemcpy2DFromArray(
        to: u64, pitch: u64, array: u64, x: u64, y: u64, width: u64, height: u64, kind: u32,
    ) {
        copy_array(ArrayEnd { array, x, y, is_target: false }, (to, pitch), width, height, kind, None)
    }

    fn cudaMemcpy2DFromArrayAsync(
        to: u64, pitch: u64, array: u64, x: u64, y: u64, width: u64, height: u64, kind: u32, stream: u64,
    ) {
        copy_array(ArrayEnd { array, x, y, is_target: false }, (to, pitch), width, height, kind, Some(stream))
    }

    // The bytes fill the rows of the array one after the other.
    fn cudaMemcpyToArray(array: u64, x: u64, y: u64, from: u64, bytes: u64, kind: u32) {
        let row = descriptor(array)?.width * texel_bytes(array)?;
        if x != 0 || !bytes.is_multiple_of(row) {
            return copy_array(ArrayEnd { array, x, y, is_target: true }, (from, bytes), bytes, 1, kind, None);
        }
        copy_array(ArrayEnd { array, x, y, is_target: true }, (from, row), row, bytes / row, kind, None)
    }

    fn cudaMemcpyFromArray(to: u64, array: u64, x: u64, y: u64, bytes: u64, kind: u32) {
        let row = descriptor(array)?.width * texel_bytes(array)?;
        if x != 0 || !bytes.is_multiple_of(row) {
            return copy_array(ArrayEnd { array, x, y, is_target: false }, (to, bytes), bytes, 1, kind, None);
        }
        copy_array(ArrayEnd { array, x, y, is_target: false }, (to, row), row, bytes / row, kind, None)
    }

    fn cudaCreateTextureObject(place: *mut u64, resource: u64, texture: u64, _view: u64) {
        let resource = driver_resource(&read(resource as *const Resource)?)?;
        let texture = read(texture as *const TextureDescriptor)?;
        let mut words = [0u32; 25];
        words[..3].copy_from_slice(&texture.address);
        words[3] = texture.filter;
        // Read mode 0 returns integers as integers: flag 1 of the driver. Flag 2: coordinates are normalised.
        words[4] = u32::from(texture.read == 0) | u32::from(texture.normalised != 0) << 1;
        check(driver::cuTexObjectCreate(place, resource.as_ptr() as u64, words.as_ptr() as u64, 0))
    }

    fn cudaDestroyTextureObject(texture: u64) {
        check(driver::cuTexObjectDestroy(texture))
    }
}
