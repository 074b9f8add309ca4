//! CUDA arrays and texture objects. An array is memory of the device in which rows and slices follow one another.

use vgpu::Texture;
use vgpu::texture::{Address, Channel, Filter, Read, Shape};

use crate::errors::{Outcome, Status};
use crate::guest::{self, Plain};
use crate::memory::Kind;
use crate::missing::unsupported;
use crate::{State, usable};

/// An array.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    pub address: u64,
    descriptor: Descriptor3D,
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    width: u64,
    height: u64,
    format: u32,
    channels: u32,
}
// SAFETY: numbers only.
unsafe impl Plain for Descriptor {}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor3D {
    width: u64,
    height: u64,
    depth: u64,
    format: u32,
    channels: u32,
    flags: u32,
    _padding: u32,
}
// SAFETY: numbers only.
unsafe impl Plain for Descriptor3D {}

/// `CUDA_RESOURCE_DESC`: the union as words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    kind: u32,
    _padding: u32,
    words: [u64; 16],
    flags: u32,
    _padding2: u32,
}
// SAFETY: numbers only.
unsafe impl Plain for Resource {}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TextureDescriptor {
    address: [u32; 3],
    filter: u32,
    flags: u32,
    _rest: [u32; 20],
}
// SAFETY: numbers only.
unsafe impl Plain for TextureDescriptor {}

const LAYERED: u32 = 1;
const SURFACE: u32 = 2;
const CUBEMAP: u32 = 4;

const READ_AS_INTEGER: u32 = 1;
const NORMALISED: u32 = 2;

fn channel(format: u32) -> Result<Channel, Status> {
    Ok(match format {
        1 => Channel::U8,
        2 => Channel::U16,
        3 => Channel::U32,
        8 => Channel::I8,
        9 => Channel::I16,
        10 => Channel::I32,
        0x10 => Channel::F16,
        0x20 => Channel::F32,
        _ => return Err(Status::INVALID_VALUE),
    })
}

impl Descriptor3D {
    fn texel_bytes(&self) -> Result<u64, Status> {
        if ![1, 2, 4].contains(&self.channels) {
            return Err(Status::INVALID_VALUE);
        }
        Ok(channel(self.format)?.bytes() * u64::from(self.channels))
    }

    fn shape(&self) -> Shape {
        match (self.flags & LAYERED != 0, self.height, self.depth) {
            (true, 0, _) => Shape::Layered1,
            (true, ..) => Shape::Layered2,
            (false, 0, 0) => Shape::D1,
            (false, _, 0) => Shape::D2,
            (false, ..) => Shape::D3,
        }
    }
}

impl Array {
    /// Bytes of a row.
    fn pitch(&self) -> Result<u64, Status> {
        self.descriptor.width.checked_mul(self.descriptor.texel_bytes()?).ok_or(Status::INVALID_VALUE)
    }
}

/// Address, bytes of a row, and rows of a slice of an array.
pub fn layout(array: u64) -> Result<(u64, u64, u64), Status> {
    let state = usable()?;
    let array = state.arrays.get(array)?;
    Ok((array.address, array.pitch()?, array.descriptor.height.max(1)))
}

fn create(place: *mut u64, descriptor: Descriptor3D) -> Outcome {
    let mut state = usable()?;
    state.require_context()?;
    guest::write(place, 0)?;
    if descriptor.flags & CUBEMAP != 0 {
        return Err(unsupported("cubemaps"));
    }
    if descriptor.width == 0 || descriptor.flags & !(LAYERED | SURFACE) != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let texels = descriptor
        .width
        .checked_mul(descriptor.height.max(1))
        .and_then(|it| it.checked_mul(descriptor.depth.max(1)));
    let bytes =
        texels.and_then(|it| it.checked_mul(descriptor.texel_bytes().ok()?)).ok_or(Status::INVALID_VALUE)?;
    let address = state.allocate(bytes, Kind::Device)?;
    let handle = state.arrays.add(Array { address, descriptor });
    guest::write(place, handle)
}

/// The texture of a resource, and the address of its texels.
fn texture(
    state: &State,
    resource: &Resource,
    descriptor: &TextureDescriptor,
) -> Result<(Texture, u64), Status> {
    let words = &resource.words;
    let (of, address) = match resource.kind {
        0 => {
            let array = state.arrays.get(words[0])?;
            (array.descriptor, array.address)
        }
        // Linear memory: address, format and channels, bytes.
        2 => {
            let (format, channels) = (words[1] as u32, (words[1] >> 32) as u32);
            let mut of =
                Descriptor3D { width: 0, height: 0, depth: 0, format, channels, flags: 0, _padding: 0 };
            of.width = words[2] / of.texel_bytes()?;
            (of, words[0])
        }
        // Rows with a pitch: address, format and channels, width, height, pitch.
        3 => {
            let (format, channels) = (words[1] as u32, (words[1] >> 32) as u32);
            let of = Descriptor3D {
                width: words[2],
                height: words[3],
                depth: 0,
                format,
                channels,
                flags: 0,
                _padding: 0,
            };
            if words[4] != of.width.saturating_mul(of.texel_bytes()?) {
                return Err(unsupported("textures of memory with gaps between its rows"));
            }
            (of, words[0])
        }
        _ => return Err(unsupported("mipmapped textures")),
    };
    let extent = |it: u64| u32::try_from(it.max(1)).map_err(|_| Status::INVALID_VALUE);
    let extents = [extent(of.width)?, extent(of.height)?, extent(of.depth)?];
    let kind = channel(of.format)?;
    let normalised = descriptor.flags & NORMALISED != 0;
    let is_integer = !matches!(kind, Channel::F32 | Channel::F16);
    let as_float = is_integer && kind.bytes() < 4 && descriptor.flags & READ_AS_INTEGER == 0;
    // Without normalised coordinates CUDA clamps where the texture would repeat.
    let mode = match descriptor.address[0] {
        0 if normalised => Address::Wrap,
        2 if normalised => Address::Mirror,
        3 => Address::Border,
        _ => Address::Clamp,
    };
    let rank = if extents[2] > 1 { 3 } else { 1 + usize::from(extents[1] > 1) };
    if descriptor.address[..rank].iter().any(|it| *it != descriptor.address[0]) {
        return Err(unsupported("textures with another address mode per dimension"));
    }
    let texture = Texture {
        filter: if descriptor.filter == 0 { Filter::Point } else { Filter::Linear },
        address: mode,
        read: if as_float { Read::NormalisedFloat } else { Read::Element },
        normalised,
        ..Texture::new(of.shape(), extents, kind, of.channels as u8)
    };
    Ok((texture, address))
}

api! {
    fn cuArrayCreate_v2(place: *mut u64, descriptor: *const Descriptor) {
        let Descriptor { width, height, format, channels } = guest::read(descriptor)?;
        create(place, Descriptor3D { width, height, depth: 0, format, channels, flags: 0, _padding: 0 })
    }

    fn cuArray3DCreate_v2(place: *mut u64, descriptor: *const [u32; 9]) {
        let [w0, w1, h0, h1, d0, d1, format, channels, flags] = guest::read(descriptor)?;
        let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        create(place, Descriptor3D {
            width: long(w0, w1), height: long(h0, h1), depth: long(d0, d1), format, channels, flags, _padding: 0,
        })
    }

    fn cuArrayDestroy(array: u64) {
        let mut state = usable()?;
        let array = state.arrays.remove(array)?;
        state.synchronise_device();
        state.release(array.address)
    }

    fn cuArrayGetDescriptor_v2(descriptor: *mut Descriptor, array: u64) {
        let state = usable()?;
        let Descriptor3D { width, height, format, channels, .. } = state.arrays.get(array)?.descriptor;
        guest::write(descriptor, Descriptor { width, height, format, channels })
    }

    fn cuArray3DGetDescriptor_v2(descriptor: *mut Descriptor3D, array: u64) {
        let state = usable()?;
        guest::write(descriptor, state.arrays.get(array)?.descriptor)
    }

    fn cuTexObjectCreate(place: *mut u64, resource: *const Resource, descriptor: *const TextureDescriptor, _view: u64) {
        let mut state = usable()?;
        guest::write(place, 0)?;
        let (texture, address) = texture(&state, &guest::read(resource)?, &guest::read(descriptor)?)?;
        let handle = state.memory.create_texture(texture, vgpu::Buffer(address)).map_err(|error| {
            eprintln!("warpsmith: cuTexObjectCreate: {error}");
            Status::INVALID_VALUE
        })?;
        guest::write(place, handle)
    }

    fn cuTexObjectDestroy(_texture: u64) {
        drop(usable()?);
        Ok(())
    }
}
